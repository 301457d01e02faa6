// Command drivers measures what tasks cost a node, by driver: what each idle one
// takes of memory, threads and processor time besides its own process, and how many
// a node starts in a second, beside plain fork and docker run. It needs root,
// bin/berth and, for docker, dockerd; see docs/performance.md.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/agent/driver/docker/dockertest"
	"berth/internal/freeport"
)

func main() {
	var b bench
	flag.StringVar(&b.berth, "berth", "bin/berth", "the program that is measured")
	flag.IntVar(&b.idle, "idle", 200, "idle tasks")
	flag.IntVar(&b.shared, "shared", 0, "allocations that share a supervisor's process; 0 is the default")
	flag.IntVar(&b.starts, "starts", 200, "tasks that are started for the figure of starts per second")
	flag.StringVar(&b.drivers, "drivers", "raw_exec", "drivers to measure, separated by commas: raw_exec, exec, docker")
	flag.Parse()
	if err := b.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	berth, drivers string
	idle, starts   int
	shared         int

	dir   string
	addr  string // http://…
	agent *exec.Cmd

	engine *dockertest.Engine // nil unless docker is measured
}

// run measures everything and prints a table.
func (b *bench) run() (err error) {
	if b.berth, err = filepath.Abs(b.berth); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "berth-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.has("docker") {
		if b.engine, err = dockertest.Start(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.engine.End()) }()
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		b.stop()
		if b.engine != nil {
			_ = b.engine.End()
		}
		_ = os.RemoveAll(b.dir)
		os.Exit(1)
	}()
	fmt.Printf("| idle tasks of | processes of ours | own memory | threads | CPU |\n|---|---|---|---|---|\n")
	for _, d := range strings.Split(b.drivers, ",") {
		if err := b.measureIdle(d); err != nil {
			return fmt.Errorf("idle tasks of %s: %w", d, err)
		}
	}
	return b.measureStarts()
}

// has reports whether a driver is measured.
func (b *bench) has(driver string) bool {
	return slices.Contains(strings.Split(b.drivers, ","), driver)
}

// start starts the agent and waits until its node is ready.
func (b *bench) start() error {
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freeport.Take(); err != nil {
			return err
		}
	}
	b.addr = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	options := ""
	if b.shared > 0 {
		options = fmt.Sprintf("options { \"supervisor.allocations\" = \"%d\" }", b.shared)
	}
	conf := fmt.Sprintf(`
data_dir = %q
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled           = true
  network_interface = "lo"
  cgroup_parent     = "berthbench.slice"
  memory_total_mb   = 1000000
  cpu_total_compute = 1000000
  disk_total_mb     = 10000000
  gc_max_allocs     = 100000
  %s
}
plugin "raw_exec" {
  config { enabled = true }
}
`, filepath.Join(b.dir, "data"), ports[0], ports[1], ports[2], options)
	if b.engine != nil {
		conf += fmt.Sprintf("plugin \"docker\" {\n  config { endpoint = %q }\n}\n", b.engine.Host)
	}
	file := filepath.Join(b.dir, "agent.hcl")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(b.dir, "agent.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	b.agent = exec.Command(b.berth, "agent", "-config", file)
	b.agent.Stdout, b.agent.Stderr = log, log
	if err := b.agent.Start(); err != nil {
		return err
	}
	return until("the node is ready", func() bool {
		var nodes []struct {
			Status  string
			Drivers map[string]struct{ Healthy bool }
		}
		if b.get("/v1/nodes", &nodes) != nil || len(nodes) != 1 || nodes[0].Status != "ready" {
			return false
		}
		for _, d := range strings.Split(b.drivers, ",") {
			if !nodes[0].Drivers[d].Healthy {
				return false
			}
		}
		return true
	})
}

// stop purges what is left, and ends the agent.
func (b *bench) stop() {
	_ = b.call("DELETE", "/v1/job/bench?purge=true", nil, nil)
	_ = until("all tasks have ended", func() bool { return len(b.supervisors()) == 0 })
	_ = b.agent.Process.Signal(syscall.SIGTERM)
	_ = b.agent.Wait()
}

// until waits until something holds.
func until(what string, holds func() bool) error {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("not within 5 minutes: %s", what)
}

// call makes a request of the agent.
func (b *bench) call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, b.addr+path, body)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

// get reads from the agent.
func (b *bench) get(path string, out any) error { return b.call("GET", path, nil, out) }

// job registers n tasks of a driver: of a service, which wait, or of a batch job,
// which end at once.
func (b *bench) job(driver, kind string, n int) error {
	config := map[string]any{"command": "/bin/sleep", "args": []string{"100000"}}
	switch {
	case driver == "docker" && kind == "service":
		config = map[string]any{"image": dockertest.Image, "args": []string{"run"}, "network_mode": "none"}
	case driver == "docker":
		config = map[string]any{"image": dockertest.Image, "args": []string{"exit", "0"}, "network_mode": "none"}
	case kind == "batch":
		config = map[string]any{"command": "/bin/true"}
	}
	task := map[string]any{"Name": "t", "Driver": driver, "Config": config, "Resources": map[string]any{"CPU": 10, "MemoryMB": 16}}
	group := map[string]any{"Name": "g", "Count": n, "Tasks": []any{task}, "EphemeralDisk": map[string]any{"SizeMB": 150}}
	job := map[string]any{"ID": "bench", "Name": "bench", "Type": kind, "Datacenters": []string{"*"}, "TaskGroups": []any{group}}
	return b.call("PUT", "/v1/jobs", map[string]any{"Job": job}, nil)
}

// have waits until n allocations of the job have a status.
func (b *bench) have(n int, status string) error {
	return until(fmt.Sprintf("%d allocations are %s", n, status), func() bool {
		var allocs []struct{ ClientStatus string }
		if b.get("/v1/job/bench/allocations", &allocs) != nil {
			return false
		}
		found := 0
		for _, a := range allocs {
			if a.ClientStatus == status {
				found++
			}
		}
		return found == n
	})
}

// purge removes the job and waits until nothing of it is left.
func (b *bench) purge() error {
	if err := b.call("DELETE", "/v1/job/bench?purge=true", nil, nil); err != nil {
		return err
	}
	return until("nothing of the job is left", func() bool {
		var allocs []struct{ ClientStatus string }
		return b.call("PUT", "/v1/system/gc", nil, nil) == nil && b.get("/v1/job/bench/allocations", &allocs) == nil && len(allocs) == 0 && len(b.supervisors()) == 0
	})
}

// measureIdle prints what idle tasks cost.
func (b *bench) measureIdle(driver string) error {
	n := b.idle
	agent := procOf(b.agent.Process.Pid)
	if err := b.job(driver, "service", n); err != nil {
		return err
	}
	if err := b.have(n, "running"); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // what starting them took is not counted
	const span = 20 * time.Second
	before := b.ticks()
	time.Sleep(span)
	ticks := b.ticks() - before
	var own, threads float64
	pids := b.supervisors()
	for _, pid := range pids {
		p := procOf(pid)
		own, threads = own+p.anon, threads+p.threads
	}
	grown := procOf(b.agent.Process.Pid)
	f := float64(n)
	fmt.Printf("| %s (%d) | %d | %.2f MiB, and %.2f MiB more in the agent | %.2f | %.3f %% of a core |\n", driver, n, len(pids),
		own/1024/f, (grown.anon-agent.anon)/1024/f, threads/f, float64(ticks)/span.Seconds()/f)
	return b.purge()
}

// supervisors lists the supervisors of this run's agent.
func (b *bench) supervisors() (out []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		args, _ := os.ReadFile(proc + "/cmdline")
		cwd, _ := os.Readlink(proc + "/cwd")
		if bytes.Contains(args, []byte("\x00supervise\x00")) && strings.HasPrefix(cwd, b.dir+"/") {
			pid, _ := strconv.Atoi(filepath.Base(proc))
			out = append(out, pid)
		}
	}
	return out
}

// usage is what a process has; memory is in KiB.
type usage struct{ anon, threads float64 }

// procOf reads /proc/PID/status.
func procOf(pid int) (u usage) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "RssAnon:":
			u.anon = n
		case "Threads:":
			u.threads = n
		}
	}
	return u
}

// ticks returns the processor time of the agent and its supervisors in hundredths
// of a second.
func (b *bench) ticks() (sum int) {
	for _, pid := range append(b.supervisors(), b.agent.Process.Pid) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			sum += user + system
		}
	}
	return sum
}
