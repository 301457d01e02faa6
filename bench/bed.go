package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bed is what a workload runs on: a fresh server and its nodes.
type bed struct {
	scale  float64
	dir    string
	server *process
	nodes  *process
	api    *users
}

// process is a child with a control address.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // closing it ends the child
	addr  []string  // what it printed when it was ready
}

// newBed starts a server and the given number of nodes and waits until all are
// ready. With tokens, access control is on, and the users have that many.
func newBed(ctx context.Context, nodes int, scale float64, tokens int) (*bed, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{scale: scale, dir: dir}
	if b.server, err = spawn(ctx, "serve", "-dir", dir, fmt.Sprint("-acl=", tokens > 0)); err != nil {
		b.close()
		return nil, err
	}
	b.api = newUsers("http://" + b.server.addr[0])
	if err := b.api.makeTokens(ctx, tokens); err != nil {
		b.close()
		return nil, err
	}
	nodes = max(1, int(float64(nodes)*min(scale, 1)))
	if b.nodes, err = spawn(ctx, "nodes", "-server", b.server.addr[1], "-count", strconv.Itoa(nodes)); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// spawn runs this program again with args and waits for the line on which it
// names its address. The process ends when its standard input is closed.
func spawn(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.end()
		return nil, fmt.Errorf("%s did not get ready: %w", args[0], err)
	}
	p.addr = strings.Fields(line)
	return p, nil
}

// end asks the process to end and kills it after 20 seconds. A nil process is
// allowed, so that a half-made bed can be closed.
func (p *process) end() {
	if p == nil {
		return
	}
	p.stdin.Close()
	done := make(chan struct{})
	go func() { p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		p.cmd.Process.Signal(syscall.SIGKILL)
		<-done
	}
}

// close ends both processes and removes their data.
func (b *bed) close() {
	b.nodes.end()
	b.server.end()
	os.RemoveAll(b.dir)
}

// cost is what a process used so far.
type cost struct {
	cpu  float64 // s
	peak float64 // MiB
}

// cost returns the CPU seconds used so far and the peak memory in MiB. What
// /proc does not give is 0.
func (p *process) cost() cost {
	var c cost
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	if stat, err := os.ReadFile(filepath.Join(proc, "stat")); err == nil {
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		user, _ := strconv.ParseFloat(f[11], 64)
		sys, _ := strconv.ParseFloat(f[12], 64)
		c.cpu = (user + sys) / 100
	}
	if status, err := os.ReadFile(filepath.Join(proc, "status")); err == nil {
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kb), "kB")), 64)
				c.peak = n / 1024
			}
		}
	}
	return c
}

// meter measures a part of a run.
type meter struct {
	b      *bed
	start  time.Time
	server cost
	nodes  cost
	log    float64
}

// meter begins to measure: the time, both processes' costs and the bytes of the
// log.
func (b *bed) meter() *meter {
	return &meter{b, time.Now(), b.server.cost(), b.nodes.cost(), b.control()["LogAppended"]}
}

// stop adds to a result what was used since the meter was started.
func (m *meter) stop(r *result, allocs int) {
	s, n := m.b.server.cost(), m.b.nodes.cost()
	r.add("server cpu", s.cpu-m.server.cpu, " s")
	r.add("nodes cpu", n.cpu-m.nodes.cpu, " s")
	r.add("server peak", s.peak, " MiB")
	r.add("log", (m.b.control()["LogAppended"]-m.log)/float64(max(allocs, 1)), " B/alloc")
}

// control asks the server process for the figures that only it knows.
func (b *bed) control() map[string]float64 {
	var out map[string]float64
	resp, err := http.Get("http://" + b.server.addr[2] + "/figures")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	json.NewDecoder(resp.Body).Decode(&out)
	return out
}

// collected asks for figures after a garbage collection.
func (b *bed) collected() (map[string]float64, error) {
	var out map[string]float64
	resp, err := http.Get("http://" + b.server.addr[2] + "/collected")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return out, json.NewDecoder(resp.Body).Decode(&out)
}

// profile saves a profile of the server process if BENCH_PROFILE names a
// folder.
func (b *bed) profile(kind string) error {
	dir := os.Getenv("BENCH_PROFILE")
	if dir == "" {
		return nil
	}
	resp, err := http.Get("http://" + b.server.addr[2] + "/debug/pprof/" + kind)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(filepath.Join(dir, strings.Split(kind, "?")[0]+".pprof"))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, resp.Body)
	return err
}

// running waits until the nodes have reported n allocations as running.
func (b *bed) running(ctx context.Context, n int) error {
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://%s/wait?running=%d", b.nodes.addr[0], n), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return errors.New(string(text))
	}
	return nil
}
