package cloud

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// serve stands for a metadata service: it answers paths, each to requests that
// have the header.
func serve(t *testing.T, header, value string, paths map[string]string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := paths[r.Method+" "+r.URL.RequestURI()]
		switch {
		case r.Method == http.MethodGet && r.Header.Get(header) != value:
			w.WriteHeader(http.StatusUnauthorized)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		default:
			if header == "Metadata-Flavor" {
				w.Header().Set(header, value)
			}
			io.WriteString(w, text)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func asked(t *testing.T, name, env, url string) map[string]string {
	t.Helper()
	t.Setenv(env, url)
	got, err := Ask(t.Context(), name, Default, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Each cloud says what its documentation has it say; what is not there, and what no
// job could refer to, is left out.
func TestClouds(t *testing.T) {
	ec2 := map[string]string{
		"PUT /latest/api/token": "secret", "GET /latest/meta-data/instance-id": "i-1\n", "GET /latest/meta-data/instance-type": "t3.micro",
		"GET /latest/meta-data/placement/availability-zone": "eu-central-1a", "GET /latest/meta-data/local-ipv4": "10.0.0.1", "GET /latest/meta-data/ami-id": strings.Repeat("a", maxValue+1),
	}
	want := map[string]string{
		"unique.platform.aws.instance-id": "i-1", "platform.aws.instance-type": "t3.micro", "platform.aws.placement.availability-zone": "eu-central-1a", "unique.platform.aws.local-ipv4": "10.0.0.1",
	}
	same(t, "sessions", asked(t, "env_aws", "AWS_ENV_URL", serve(t, "X-Aws-Ec2-Metadata-Token", "secret", ec2).URL+"/latest/meta-data/"), want)
	delete(ec2, "PUT /latest/api/token")
	same(t, "no sessions", asked(t, "env_aws", "AWS_ENV_URL", serve(t, "X-Aws-Ec2-Metadata-Token", "", ec2).URL+"/latest/meta-data"), want)

	same(t, "droplet", asked(t, "env_digitalocean", "DO_ENV_URL", serve(t, "X", "", map[string]string{
		"GET /metadata/v1/id": "7", "GET /metadata/v1/region": "fra1", "GET /metadata/v1/interfaces/public/0/ipv4/address": "192.0.2.7",
	}).URL+"/metadata/v1"), map[string]string{"unique.platform.digitalocean.id": "7", "platform.digitalocean.region": "fra1", "unique.platform.digitalocean.public-ipv4": "192.0.2.7"})

	same(t, "GCE", asked(t, "env_gce", "GCE_ENV_URL", serve(t, "Metadata-Flavor", "Google", map[string]string{"GET /computeMetadata/v1/instance/?recursive=true": `{
		"id": 8374892374892734, "hostname": "a.c.p.internal", "zone": "projects/1/zones/us-central1-f", "machineType": "projects/1/machineTypes/n1-standard-1", "cpuPlatform": "Intel Ivy Bridge",
		"attributes": {"ssh-keys": "secret", "startup-script": "secret"}, "scheduling": {"automaticRestart": "TRUE", "onHostMaintenance": "MIGRATE", "preemptible": "FALSE"},
		"networkInterfaces": [{"network": "projects/1/networks/default", "ip": "10.240.0.5", "accessConfigs": [{"externalIp": "192.0.2.1", "type": "ONE_TO_ONE_NAT"}]}], "tags": ["web", "bad tag"]}`}).URL+"/computeMetadata/v1/instance"), map[string]string{
		"unique.platform.gce.id": "8374892374892734", "unique.platform.gce.hostname": "a.c.p.internal", "platform.gce.zone": "us-central1-f", "platform.gce.machine-type": "n1-standard-1",
		"platform.gce.cpu-platform": "Intel Ivy Bridge", "platform.gce.scheduling.automatic-restart": "TRUE", "platform.gce.scheduling.on-host-maintenance": "MIGRATE",
		"platform.gce.scheduling.preemptible": "FALSE", "platform.gce.network.default": "true", "unique.platform.gce.network.default.ip": "10.240.0.5",
		"unique.platform.gce.network.default.external-ip.0": "192.0.2.1", "platform.gce.tag.web": "true",
	})

	same(t, "Azure", asked(t, "env_azure", "AZURE_ENV_URL", serve(t, "Metadata", "true", map[string]string{"GET /metadata/instance/?api-version=2021-02-01&format=json": `{
		"compute": {"name": "vm1", "vmId": "13f56399", "location": "westus", "vmSize": "Standard_A3", "zone": "2", "resourceGroupName": "rg", "customData": "secret", "tagsList": [{"name": "team", "value": "a"}]},
		"network": {"interface": [{"macAddress": "000D3A", "ipv4": {"ipAddress": [{"privateIpAddress": "10.1.0.4", "publicIpAddress": ""}]}, "ipv6": {"ipAddress": []}}]}}`}).URL+"/metadata/instance/"), map[string]string{
		"unique.platform.azure.name": "vm1", "unique.platform.azure.id": "13f56399", "platform.azure.location": "westus", "platform.azure.vm-size": "Standard_A3",
		"platform.azure.availability-zone": "2", "platform.azure.resource-group": "rg", "platform.azure.tag.team": "a", "unique.platform.azure.mac": "000D3A", "unique.platform.azure.local-ipv4": "10.1.0.4",
	})
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: %q\nwanted: %q", what, got, want)
	}
}

// Something else at the address is no cloud, and says nothing; it is asked again as
// often as the block says.
func TestWhatIsNoCloud(t *testing.T) {
	var calls atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>a portal</html>") }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { calls.Add(1); answer(w, r) }))
	defer s.Close()
	for _, name := range Names() {
		t.Setenv(services[name].env, s.URL)
	}
	for _, name := range []string{"env_gce", "env_azure"} {
		if got, err := once(t.Context(), name); err == nil {
			t.Errorf("%s says %v", name, got)
		}
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	}
	for _, name := range Names() {
		if got, err := once(t.Context(), name); err == nil || !strings.Contains(err.Error(), "answers 302") {
			t.Errorf("%s follows a redirect: %v, %v", name, got, err)
		}
	}
	answer = func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("x", maxAnswer+1)) }
	for _, name := range Names() {
		if got, err := once(t.Context(), name); err == nil || !strings.Contains(err.Error(), "answers with more than") {
			t.Errorf("%s takes anything: %v, %v", name, got, err)
		}
	}
	answer = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }
	calls.Store(0)
	if got, err := Ask(t.Context(), "env_digitalocean", Fingerprint{RetryAttempts: 3, RetryInterval: time.Nanosecond}, quiet); err == nil || calls.Load() != 4 {
		t.Errorf("%v, %v after %d calls", got, err, calls.Load())
	}
}

// The firmware tells which cloud a machine is in.
func TestTheCloudOfAMachine(t *testing.T) {
	for vendor, want := range map[string]string{
		"Amazon EC2\n": "env_aws", "Google\n": "env_gce", "Microsoft Corporation\n": "env_azure", "DigitalOcean\n": "env_digitalocean", "QEMU\n": "", "": "", "Dell Inc. Amazon": "",
	} {
		if got := byVendor(vendor); got != want {
			t.Errorf("%q is %q, not %q", vendor, got, want)
		}
	}
}
