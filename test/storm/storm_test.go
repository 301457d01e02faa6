package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/agent/driver/podman/podmantest"
	"berth/test/bed"
)

func TestMain(m *testing.M) { os.Exit(bed.MainApart(m)) }

// size is how much happens in a storm.
type size struct {
	long  map[string]int // tasks that run all the time, by driver; those of bridge are exec in a network of their group
	kills int            // of the agent
}

// The storm of make test, and that of make storm.
var (
	short = size{map[string]int{"raw_exec": 3, "exec": 2, "bridge": 2, "docker": 2, "podman": 1}, 3}
	whole = size{map[string]int{"raw_exec": 16, "exec": 12, "bridge": 4, "docker": 10, "podman": 5, "java": 2, "qemu": 1}, 20}
)

const config = `
name     = "one"
data_dir = "DIR/one"
ports {
  http = 0
  rpc  = 0
  serf = 0
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  network_interface = "lo"
  bridge_network_name = "berthstorm0"
  cgroup_parent     = "CGROUP"
  memory_total_mb   = 100000
  cpu_total_compute = 100000
  disk_total_mb     = 1000000
}
plugin "raw_exec" {
  config { enabled = true }
}
plugin "docker" {
  config { endpoint = "DOCKER" }
}
plugin "nomad-driver-podman" {
  config { socket_path = "unix://PODMAN" }
}
`

// world is an agent with two engines.
type world struct {
	*bed.Bed
	*bed.Agent
	t      *testing.T
	docker *dockertest.Engine
	podman *podmantest.Service
	class  string // directory with a Java class, "" if it is not needed
	long   map[string]bool
}

// The agent is killed at random moments and started again; in between the
// engines are restarted. Long tasks go on, and short ones, which begin and end all
// the while, are reported with their exit codes.
//
// With BERTH_STORM set it is the whole storm.
func TestStorm(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	s := short
	if os.Getenv("BERTH_STORM") != "" {
		s = whole
	}
	w := start(t, s)
	mounts, nets := lines("/proc/self/mountinfo"), listed("/run/netns")

	for d, n := range s.long {
		w.submit("service", "long-"+d, d, n, w.runs(d))
		w.long["long-"+d] = true
	}
	before, rules := w.running(s), w.rules()
	if len(rules) < s.long["bridge"] {
		t.Errorf("%d tasks have a network of their group, with the rules %q", s.long["bridge"], rules)
	}
	began := time.Now()
	var short []string          // IDs of jobs whose tasks end with code 7
	missed := map[string]bool{} // those whose containers may have ended while their engine was away
	for i := range s.kills {
		restart := i == s.kills/3 || i == 2*s.kills/3
		for _, d := range []string{"raw_exec", "exec", "docker"} {
			id := fmt.Sprintf("short-%s-%d", d, i)
			w.submit("batch", id, d, 2, w.ends(d, 7))
			short = append(short, id)
		}
		w.wait(time.Duration(rand.N(1500)) * time.Millisecond)
		for _, id := range short {
			if restart && strings.HasPrefix(id, "short-docker-") && w.status(id, "failed", 2) != "" {
				missed[id] = true // whenever they began: a busy machine may be far behind
			}
		}
		w.Kill()
		w.note("the agent is killed")
		if restart {
			w.must(w.docker.Down())
			w.podman.Down()
			w.note("the engines are stopped")
			w.must(w.docker.Up(""))
			w.must(w.podman.Up())
			w.note("the engines are there again")
		}
		w.wait(time.Duration(rand.N(700)) * time.Millisecond)
		w.must(w.Start())
		w.must(w.Await(t.Context()))
	}
	lost := 0
	for _, id := range short {
		w.until(id+" has ended", func() string { return w.status(id, "failed", 2) })
		for _, a := range w.allocs(id) {
			// An engine that was away when a container ended, and finds nothing of it
			// in containerd, says 255: https://github.com/moby/moby/pull/45800.
			if code := a.code(); code != "7" && !(missed[id] && code == "255") {
				lost++
				t.Errorf("%s: exit code %q: %v", id, code, a.events())
			}
		}
	}
	for id := range w.long {
		n := s.long[strings.TrimPrefix(id, "long-")]
		w.until(id+" still runs", func() string { return w.status(id, "running", n) })
		for _, a := range w.allocs(id) {
			for _, ts := range a.TaskStates {
				if ts.Restarts != 0 {
					t.Errorf("%s was started again: %v", id, a.events())
				}
			}
		}
	}
	if after := w.tasks(); !maps.EqualFunc(before, after, slices.Equal[[]int]) {
		t.Errorf("the processes of long tasks were %v and are %v", before, after)
	}
	if now := w.rules(); !slices.Equal(rules, now) {
		t.Errorf("the firewall's rules were %q and are %q", rules, now)
	}
	t.Logf("%d kills in %v: %d long tasks, %d short ones; %d exit codes lost", s.kills, time.Since(began).Round(time.Second), len(before), 2*len(short), lost)

	for _, id := range append(slices.Collect(maps.Keys(w.long)), short...) {
		w.must(w.call("DELETE", "/v1/job/"+id+"?purge=true", "", nil))
	}
	w.until("nothing is left", func() string { return w.left(mounts, nets) })
}

// start starts engines and an agent with all drivers.
func start(t *testing.T, s size) *world {
	w := &world{Bed: bed.ForTest(t), t: t, long: map[string]bool{}}
	var err error
	w.docker, err = dockertest.Start()
	w.must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of dockerd:\n%s", w.docker.Log())
		}
		w.must(w.docker.End())
	})
	w.podman, err = podmantest.Start()
	w.must(err)
	t.Cleanup(func() { w.must(w.podman.End()) })
	if s.long["java"] > 0 {
		w.class = filepath.Join(w.Dir, "java")
		w.must(os.Mkdir(w.class, 0o755))
		w.must(os.WriteFile(filepath.Join(w.class, "Wait.java"), []byte("public class Wait { public static void main(String[] a) throws Exception { Thread.sleep(100000000L); } }"), 0o644))
		if out, err := exec.Command("javac", "-d", w.class, filepath.Join(w.class, "Wait.java")).CombinedOutput(); err != nil {
			t.Fatalf("javac: %v: %s", err, out)
		}
	}
	text := config
	if w.class != "" {
		// Tasks see the class and an image beside what they see by default.
		text = strings.Replace(text, "client {", "client {\n  chroot_env {\n"+chroot(w.class)+"  }\n", 1)
		text += "plugin \"qemu\" {\n  config { image_paths = [\"" + w.Dir + "\"] }\n}\n"
		w.must(os.WriteFile(filepath.Join(w.Dir, "disk.img"), make([]byte, 1<<20), 0o644))
		w.must(os.Chmod(w.Dir, 0o755))
		w.must(os.Chmod(bed.SuiteDir(), 0o755))
	}
	path, err := w.File("one.hcl", strings.NewReplacer("DIR", w.Dir, "CGROUP", w.CgroupParent(), "DOCKER", w.docker.Host, "PODMAN", w.podman.Path).Replace(text))
	w.must(err)
	w.Agent = w.Bed.Agent("one", "-config", path)
	w.must(w.Start())
	w.must(w.Await(t.Context()))
	w.until("the node has all drivers", func() string {
		var nodes []struct {
			Status  string
			Drivers map[string]struct {
				Healthy           bool
				HealthDescription string
			}
		}
		if err := w.call("GET", "/v1/nodes", "", &nodes); err != nil || len(nodes) != 1 || nodes[0].Status != "ready" {
			return fmt.Sprint(err, nodes)
		}
		for d := range s.long {
			if d != "bridge" && !nodes[0].Drivers[d].Healthy {
				return fmt.Sprint(d, ": ", nodes[0].Drivers[d].HealthDescription)
			}
		}
		return ""
	})
	return w
}

// chroot is what tasks see of the host.
func chroot(class string) string {
	var b strings.Builder
	for _, p := range []string{"/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc"} {
		if _, err := os.Stat(p); err == nil {
			fmt.Fprintf(&b, "    %q = %q\n", p, p)
		}
	}
	fmt.Fprintf(&b, "    %q = \"/java\"\n", class)
	return b.String()
}

// runs is the configuration of a task that runs on.
func (w *world) runs(driver string) string {
	switch driver {
	case "docker", "podman":
		return fmt.Sprintf(`{"image": %q, "args": ["run"], "network_mode": "none"}`, dockertest.Image)
	case "java":
		return `{"class": "Wait", "class_path": "/java", "jvm_options": ["-Xmx32m"]}`
	case "qemu":
		return fmt.Sprintf(`{"image_path": %q}`, filepath.Join(w.Dir, "disk.img"))
	}
	return `{"command": "/bin/sleep", "args": ["100000"]}`
}

// ends is the configuration of a task that ends with a code soon.
func (w *world) ends(driver string, code int) string {
	if driver == "docker" {
		return fmt.Sprintf(`{"image": %q, "args": ["exit", "%d"], "network_mode": "none"}`, dockertest.Image, code)
	}
	return fmt.Sprintf(`{"command": "/bin/sh", "args": ["-c", "sleep 0.%d; exit %d"]}`, rand.IntN(10), code)
}

// submit registers a job with n tasks, which are not started again.
func (w *world) submit(typ, id, driver string, n int, config string) {
	w.t.Helper()
	memory := map[string]int{"java": 256, "qemu": 64}[driver]
	network := "null"
	if driver == "bridge" {
		driver, network = "exec", `[{"Mode": "bridge", "DynamicPorts": [{"Label": "http", "To": 8080}]}]`
	}
	job := fmt.Sprintf(`{"Job": {"ID": %q, "Name": %q, "Type": %q, "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Count": %d,
		"RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0, "Unlimited": false}, "EphemeralDisk": {"SizeMB": 150}, "Networks": %s,
		"Tasks": [{"Name": "t", "Driver": %q, "Config": %s, "KillTimeout": 1000000000, "Resources": {"CPU": 10, "MemoryMB": %d}}]}]}}`,
		id, id, typ, n, network, driver, config, max(memory, 32))
	w.must(w.call("PUT", "/v1/jobs", job, nil))
}

// allocation is what the API tells of one.
type allocation struct {
	ID, ClientStatus, DesiredStatus string
	TaskStates                      map[string]struct {
		Restarts int
		Events   []struct {
			Type, DisplayMessage string
			Time                 int64 // in nanoseconds since 1970
			Details              map[string]string
		}
	}
}

// code is the exit code that the task's last end was reported with.
func (a *allocation) code() string {
	events := a.TaskStates["t"].Events
	for i := range slices.Backward(events) {
		if events[i].Type == "Terminated" {
			return events[i].Details["exit_code"]
		}
	}
	return ""
}

// events is the history of the task.
func (a *allocation) events() (out []string) {
	for _, e := range a.TaskStates["t"].Events {
		out = append(out, time.Unix(0, e.Time).UTC().Format(clock)+" "+e.Type+": "+e.DisplayMessage)
	}
	return out
}

// clock is how logs of this test tell the time of day.
const clock = "15:04:05.000"

// note logs what is done to the agent and its engines.
func (w *world) note(what string) {
	w.t.Helper()
	w.t.Log(time.Now().UTC().Format(clock), what)
}

// allocs returns the allocations of a job.
func (w *world) allocs(id string) (out []allocation) {
	if err := w.call("GET", "/v1/job/"+id+"/allocations", "", &out); err != nil {
		w.t.Log(err)
	}
	return out
}

// status is "" if a job has n allocations, and all of them have a status.
func (w *world) status(id, status string, n int) string {
	all := w.allocs(id)
	if len(all) == n && !slices.ContainsFunc(all, func(a allocation) bool { return a.ClientStatus != status }) {
		return ""
	}
	var out []string
	for i := range all {
		out = append(out, fmt.Sprint(all[i].ClientStatus, all[i].events()))
	}
	return strings.Join(out, "; ")
}

// running waits until all long tasks run, and returns their processes by
// allocation. One that runs may still be about to become its program.
func (w *world) running(s size) (found map[string][]int) {
	w.t.Helper()
	all := 0
	for d, n := range s.long {
		w.until("long-"+d+" runs", func() string { return w.status("long-"+d, "running", n) })
		all += n
	}
	w.until("all long tasks have their processes", func() string {
		if found = w.tasks(); len(found) == all {
			return ""
		}
		return fmt.Sprintf("%d of %d: %v", len(found), all, found)
	})
	return found
}

// tasks returns the processes of long tasks, by allocation.
func (w *world) tasks() map[string][]int {
	all, out := bed.Tasks(bed.AllProcesses()), map[string][]int{}
	for id := range w.long {
		for _, a := range w.allocs(id) {
			if pids := all[a.ID]; len(pids) > 0 {
				out[a.ID] = pids
			}
		}
	}
	return out
}

// rules returns the rules of the firewall that were made for an allocation, sorted.
func (w *world) rules() (out []string) {
	saved, err := exec.Command("iptables-save").Output()
	w.must(err)
	for l := range strings.Lines(string(saved)) {
		if strings.HasPrefix(l, "-A ") && strings.Contains(l, `id: \"`) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	slices.Sort(out)
	return out
}

// left tells what is there that was not before.
func (w *world) left(mounts, nets []string) string {
	var out []string
	if all := w.Processes(); len(all) > 1 {
		out = append(out, fmt.Sprint(all))
	}
	for _, m := range lines("/proc/self/mountinfo") {
		if strings.Contains(m, w.Dir+"/") && !slices.Contains(mounts, m) {
			out = append(out, m)
		}
	}
	for _, n := range listed("/run/netns") {
		if !slices.Contains(nets, n) {
			out = append(out, "network namespace "+n)
		}
	}
	for _, r := range w.rules() {
		out = append(out, "rule "+r)
	}
	links, err := exec.Command("ip", "-brief", "link").Output()
	w.must(err)
	for l := range strings.Lines(string(links)) {
		if strings.HasPrefix(l, "veth") {
			out = append(out, "interface "+l)
		}
	}
	for _, top := range bed.Cgroups(w.Mark) {
		for _, name := range listed(top) {
			if st, err := os.Stat(filepath.Join(top, name)); err == nil && st.IsDir() {
				out = append(out, "cgroup "+name)
			}
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	names, err := dockertest.Containers(ctx, w.docker.Client)
	if err != nil {
		out = append(out, err.Error())
	}
	more, err := dockertest.Containers(ctx, w.podman.Client)
	if err != nil {
		out = append(out, err.Error())
	}
	for _, n := range append(names, more...) {
		out = append(out, "container "+n)
	}
	return strings.Join(out, "; ")
}

// call makes a request of the agent.
func (w *world) call(method, path, body string, out any) error {
	a, err := bed.Call(w.t.Context(), method, w.Banner("HTTP")+path, body)
	switch {
	case err != nil:
		return err
	case !a.Good():
		return fmt.Errorf("%s %s: %d %s", method, path, a.Code, a.Text)
	case out == nil:
		return nil
	}
	return json.Unmarshal([]byte(a.Text), out)
}

// until waits until amiss returns "".
func (w *world) until(what string, amiss func() string) {
	w.t.Helper()
	w.must(bed.Until(w.t.Context(), what, amiss))
}

// wait lets some time pass: the storm strikes at random moments.
func (w *world) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
	}
}

// must ends the test if there is an error.
func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// lines returns the lines of a file.
func lines(path string) []string {
	b, _ := os.ReadFile(path)
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// listed returns the names in a directory.
func listed(dir string) (out []string) {
	all, _ := os.ReadDir(dir)
	for _, e := range all {
		out = append(out, e.Name())
	}
	return out
}
