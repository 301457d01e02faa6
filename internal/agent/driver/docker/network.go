package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
	"berth/internal/driverconfig"
)

// Networks of groups. An engine's containers can only join a network namespace
// that another container has, so each allocation gets a container that does
// nothing but hold one: the infra container. CNI plugins join its namespace to
// the host, see package network, and tasks of other drivers join it by its path.

// labelInfra is the label of infra containers.
const labelInfra = "berth.infra"

// networkModes are the modes of groups whose tasks the driver can run.
func networkModes() []string {
	if pauseCode[runtime.GOARCH] == nil {
		return nil
	}
	return []string{berth.NetworkBridge, berth.NetworkNone, strings.TrimSuffix(berth.NetworkCNI, "/")}
}

// infraName is the name of an allocation's infra container.
func infraName(alloc string) string { return "berth-network-" + alloc }

// infra returns the allocation's infra container, nil if it has none.
func (d *Driver) infra(ctx context.Context, alloc string) (*container.InspectResponse, error) {
	got, err := d.engine.ContainerInspect(ctx, infraName(alloc), client.ContainerInspectOptions{})
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &got.Container
	if c.Config == nil || c.Config.Labels[labelInfra] == "" || c.Config.Labels[labelAllocID] != alloc {
		return nil, berth.Errorf(berth.Conflict, "the name %s belongs to a container that is not ours", infraName(alloc))
	}
	return c, nil
}

// namespaceOf returns the path of a container's network namespace, "" if it does
// not run.
func namespaceOf(c *container.InspectResponse) (string, error) {
	if c == nil || c.State == nil || !c.State.Running || c.State.Pid <= 1 {
		return "", nil
	}
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if !strings.Contains(string(in), c.ID) {
		return "", berth.Errorf(berth.Invalid, "network.mode: the process %d of container %s is not on this machine: networks of groups need the engine to be on the node", c.State.Pid, c.ID)
	}
	return fmt.Sprintf("/proc/%d/ns/net", c.State.Pid), nil
}

// MakeNetwork implements network.Namespacer of package agent/network.
func (d *Driver) MakeNetwork(ctx context.Context, alloc, hostname string) (string, error) {
	if err := d.ready(); err != nil {
		return "", err
	}
	c, err := d.infra(ctx, alloc)
	if err != nil {
		return "", err
	}
	if path, err := namespaceOf(c); path != "" || err != nil {
		return path, err
	}
	if c != nil { // the engine or somebody else has ended it
		if err := d.remove(ctx, c.ID); err != nil {
			return "", err
		}
	}
	image, err := d.pause(ctx)
	if err != nil {
		return "", err
	}
	made, err := d.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: infraName(alloc),
		Config: &container.Config{
			Image: image, Hostname: hostname, Entrypoint: []string{pausePath}, User: "65534:65534",
			Labels: map[string]string{labelInfra: "network", labelAllocID: alloc, labelNode: d.c.Node},
		},
		HostConfig: &container.HostConfig{
			NetworkMode: network.NetworkNone, ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "none"}, RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		},
	})
	if err != nil {
		return "", fmt.Errorf("creation of the infra container: %w", err)
	}
	if _, err := d.engine.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return "", fmt.Errorf("start of the infra container: %w", err)
	}
	if c, err = d.infra(ctx, alloc); err != nil {
		return "", err
	}
	path, err := namespaceOf(c)
	if err == nil && path == "" {
		err = fmt.Errorf("the infra container %s has ended", made.ID)
	}
	return path, err
}

// RemoveNetwork implements network.Namespacer of package agent/network.
func (d *Driver) RemoveNetwork(ctx context.Context, alloc string) error {
	if d.broken != nil {
		return d.ready()
	}
	c, err := d.infra(ctx, alloc)
	if c == nil || err != nil {
		return err
	}
	return d.remove(ctx, c.ID)
}

// join returns the network that the container joins: the one that its config
// names, else the group's, else the engine's default.
func (d *Driver) join(ctx context.Context, t *driver.Task, v driverconfig.Values) (container.NetworkMode, error) {
	if !inGroup(t, v) {
		return networkMode(v), nil
	}
	if d.kind.Paths {
		return container.NetworkMode("ns:" + t.Network.Namespace), nil
	}
	c, err := d.infra(ctx, t.AllocID)
	if err != nil {
		return "", errf("infra container", err)
	}
	path, err := namespaceOf(c)
	if err != nil {
		return "", err
	}
	// Else the engine has ended the infra container meanwhile: the network is made
	// again at the next start.
	if path != "" && sameFile(path, t.Network.Namespace) {
		return container.NetworkMode("container:" + c.ID), nil
	}
	return "", driver.Recoverable(fmt.Errorf("the infra container of the group's network has ended"))
}

// sameFile reports whether two paths are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// inGroup reports whether the container is in the network of its group.
func inGroup(t *driver.Task, v driverconfig.Values) bool {
	return t.Network != nil && v.String("network_mode") == ""
}

// checkNetwork refuses what cannot be set for one container of a network.
func checkNetwork(t *driver.Task, v driverconfig.Values) error {
	var ps berth.Problems
	labels := slices.Concat(v.Strings("ports"), slices.Sorted(maps.Keys(v.Map("port_map"))))
	for _, label := range labels {
		if !slices.ContainsFunc(t.Ports, func(p berth.PortMapping) bool { return p.Label == label }) {
			ps.Addf("config.ports", "the group's network has no port %q", label)
		}
	}
	switch {
	case t.Network == nil:
		return ps.Err()
	case !inGroup(t, v):
		if len(labels) > 0 {
			ps.Addf("config.ports", "port %q leads to the group's network, and network_mode = %q puts the task into another", labels[0], v.String("network_mode"))
		}
		return ps.Err()
	}
	if len(v.Map("port_map")) > 0 {
		ps.Addf("config.port_map", "is not for tasks in the group's network: set \"to\" in the port of the group's network")
	}
	text := func(key string) bool { return v.String(key) != "" }
	list := func(key string) bool { return len(v.Strings(key)) > 0 }
	for _, c := range []struct {
		key, instead string
		set          func(string) bool
	}{
		{"hostname", "hostname", text}, {"dns_servers", "dns.servers", list}, {"dns_search_domains", "dns.searches", list}, {"dns_options", "dns.options", list},
		{"network_aliases", "", list}, {"ipv4_address", "", text}, {"ipv6_address", "", text}, {"mac_address", "", text}, {"uts_mode", "", text},
	} {
		if !c.set(c.key) {
			continue
		}
		if c.instead == "" {
			ps.Addf("config."+c.key, "is not for tasks in the group's network, whose tasks share it")
		} else {
			ps.Addf("config."+c.key, "is not for tasks in the group's network, whose tasks share it: set %s in the network block of the group", c.instead)
		}
	}
	for _, h := range v.Strings("extra_hosts") {
		if strings.HasSuffix(h, ":host-gateway") {
			ps.Addf("config.extra_hosts", "%q: host-gateway is not for tasks in the group's network; NOMAD_HOST_IP_… of a port is the host's address", berth.Clip(h, 200))
		}
	}
	return ps.Err()
}

// networkFiles writes the files about names that the group's network has its
// tasks see, and returns how they are mounted. They are where no task gets to.
func (d *Driver) networkFiles(t *driver.Task, v driverconfig.Values) (binds []string, err error) {
	if !inGroup(t, v) {
		return nil, nil
	}
	hosts := t.Network.HostsFile()
	for _, line := range v.Strings("extra_hosts") {
		name, addr, _ := strings.Cut(line, ":") // the schema has checked it
		hosts += strings.Trim(addr, "[]") + "\t" + name + "\n"
	}
	for _, f := range []struct{ name, text string }{{"hosts", hosts}, {"resolv.conf", t.Network.ResolvFile()}} {
		if f.text == "" {
			continue
		}
		file := supervise.ControlDir + "/" + f.name + "-" + t.Name
		if err := t.AllocDir.Replace(file, []byte(f.text), 0o644); err != nil {
			return nil, driver.Recoverable(fmt.Errorf("/etc/%s of the task: %w", f.name, err))
		}
		bind := t.AllocDir.Path() + "/" + file + ":/etc/" + f.name
		if d.c.SELinuxLabel != "" {
			bind += ":" + d.c.SELinuxLabel
		}
		binds = append(binds, bind)
	}
	return binds, nil
}
