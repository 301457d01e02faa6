package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

// What each cloud is asked, by the documentation of its metadata service.

// aws asks Amazon EC2. It takes part in a session if the service has sessions
// (IMDSv2).
func aws(ctx context.Context, a *asker) (map[string]string, error) {
	root := strings.TrimSuffix(a.base, "meta-data/")
	token, _, err := a.call(ctx, http.MethodPut, root+"api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {"60"}})
	switch err.(type) {
	case nil:
		a.header = http.Header{"X-Aws-Ec2-Metadata-Token": {token}}
	case notThere: // without sessions
	default:
		return nil, err
	}
	return a.values(ctx, [][2]string{
		{"unique.platform.aws.instance-id", "instance-id"},
		{"platform.aws.ami-id", "ami-id"},
		{"platform.aws.instance-life-cycle", "instance-life-cycle"},
		{"platform.aws.instance-type", "instance-type"},
		{"platform.aws.placement.availability-zone", "placement/availability-zone"},
		{"unique.platform.aws.hostname", "hostname"},
		{"unique.platform.aws.local-hostname", "local-hostname"},
		{"unique.platform.aws.local-ipv4", "local-ipv4"},
		{"unique.platform.aws.mac", "mac"},
		{"unique.platform.aws.public-hostname", "public-hostname"},
		{"unique.platform.aws.public-ipv4", "public-ipv4"},
	})
}

// digitalOcean asks DigitalOcean.
func digitalOcean(ctx context.Context, a *asker) (map[string]string, error) {
	return a.values(ctx, [][2]string{
		{"unique.platform.digitalocean.id", "id"},
		{"platform.digitalocean.region", "region"},
		{"unique.platform.digitalocean.hostname", "hostname"},
		{"unique.platform.digitalocean.mac", "interfaces/public/0/mac"},
		{"unique.platform.digitalocean.private-ipv4", "interfaces/private/0/ipv4/address"},
		{"unique.platform.digitalocean.public-ipv4", "interfaces/public/0/ipv4/address"},
		{"unique.platform.digitalocean.public-ipv6", "interfaces/public/0/ipv6/address"},
	})
}

// gce asks Google Compute Engine.
func gce(ctx context.Context, a *asker) (map[string]string, error) {
	text, header, err := a.get(ctx, "?recursive=true")
	if err != nil {
		return nil, err
	}
	if header.Get("Metadata-Flavor") != "Google" {
		return nil, fmt.Errorf("%s answers without the header Metadata-Flavor: Google", a.base)
	}
	var in struct {
		ID                                       json.Number
		Hostname, Zone, MachineType, CPUPlatform string
		Scheduling                               struct{ AutomaticRestart, OnHostMaintenance, Preemptible string }
		NetworkInterfaces                        []struct {
			Network, IP   string
			AccessConfigs []struct{ ExternalIP string }
		}
		Tags []string
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("%s answers with something that does not describe an instance: %w", a.base, err)
	}
	out := map[string]string{
		"unique.platform.gce.id": in.ID.String(), "unique.platform.gce.hostname": in.Hostname, "platform.gce.zone": last(in.Zone),
		"platform.gce.machine-type": last(in.MachineType), "platform.gce.cpu-platform": in.CPUPlatform,
		"platform.gce.scheduling.automatic-restart": in.Scheduling.AutomaticRestart, "platform.gce.scheduling.on-host-maintenance": in.Scheduling.OnHostMaintenance,
		"platform.gce.scheduling.preemptible": in.Scheduling.Preemptible,
	}
	for _, net := range first(in.NetworkInterfaces) {
		name := "platform.gce.network." + last(net.Network)
		out[name], out["unique."+name+".ip"] = "true", net.IP
		for i, c := range first(net.AccessConfigs) {
			out["unique."+name+".external-ip."+strconv.Itoa(i)] = c.ExternalIP
		}
	}
	for _, tag := range first(in.Tags) {
		out["platform.gce.tag."+tag] = "true"
	}
	return out, nil
}

// azure asks Microsoft Azure.
func azure(ctx context.Context, a *asker) (map[string]string, error) {
	text, _, err := a.get(ctx, "?api-version=2021-02-01&format=json")
	if err != nil {
		return nil, err
	}
	type addresses struct {
		IPAddress []struct{ PrivateIPAddress, PublicIPAddress string }
	}
	var in struct {
		Compute struct {
			Name, VMID, Location, VMSize, Zone, ResourceGroupName string
			TagsList                                              []struct{ Name, Value string }
		}
		Network struct {
			Interface []struct {
				MACAddress string
				IPv4, IPv6 addresses
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("%s answers with something that does not describe an instance: %w", a.base, err)
	}
	if in.Compute.VMID == "" {
		return nil, fmt.Errorf("%s answers without the ID of a machine", a.base)
	}
	c := &in.Compute
	out := map[string]string{
		"unique.platform.azure.id": c.VMID, "unique.platform.azure.name": c.Name, "platform.azure.location": c.Location,
		"platform.azure.vm-size": c.VMSize, "platform.azure.availability-zone": c.Zone, "platform.azure.resource-group": c.ResourceGroupName,
	}
	for _, tag := range first(c.TagsList) {
		out["platform.azure.tag."+tag.Name] = tag.Value
	}
	if len(in.Network.Interface) > 0 {
		net := in.Network.Interface[0]
		out["unique.platform.azure.mac"] = net.MACAddress
		for family, list := range map[string]addresses{"ipv4": net.IPv4, "ipv6": net.IPv6} {
			if len(list.IPAddress) > 0 {
				out["unique.platform.azure.local-"+family], out["unique.platform.azure.public-"+family] = list.IPAddress[0].PrivateIPAddress, list.IPAddress[0].PublicIPAddress
			}
		}
	}
	return out, nil
}

// last returns the last part of a path such as projects/1/zones/a. It is "" for "".
func last(s string) string {
	if s == "" {
		return ""
	}
	return path.Base(s)
}

// first returns the part of a list that is looked at.
func first[T any](list []T) []T { return list[:min(len(list), maxEntries)] }
