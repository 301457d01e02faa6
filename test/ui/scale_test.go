package ui

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"berth/internal/freeport"
	"berth/test/bed"

	"golang.org/x/sync/errgroup"
)

// scaled is a server with simulated nodes, and jobs that run on them.
type scaled struct {
	*cluster
	scale   float64
	counter string // address of the process of the nodes, which counts what runs
	running int    // allocations so far
}

// of returns n at the scale of the run.
func (s *scaled) of(n int) int { return max(1, int(float64(n)*s.scale)) }

// TestScale measures the web UI beside a large cluster: make bench-ui. It needs
// the program of ./bench, which simulates the nodes, in BERTH_BENCH, and the size
// in BERTH_BENCH_UI: 1 is 10,000 jobs, 100,000 allocations and 5,000 nodes.
func TestScale(t *testing.T) {
	scale, err := strconv.ParseFloat(os.Getenv("BERTH_BENCH_UI"), 64)
	if err != nil || scale <= 0 {
		t.Skip("BERTH_BENCH_UI is not set")
	}
	s := newScaled(t, scale)
	s.jobs("service", "svc-", s.of(10_000), 10)
	b := newBrowser(t)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "| %d jobs, %d allocations, %d nodes \t| \t|\n|---\t|---\t|\n", s.of(10_000), s.running, s.of(5_000))
	row := func(what, format string, args ...any) {
		t.Log(what)
		fmt.Fprintf(w, "| %s \t| %s \t|\n", what, fmt.Sprintf(format, args...))
	}
	s.pages(b, row)
	s.load(b, row)
	w.Flush()
	fmt.Println(out.String())
}

// newScaled starts a server and its nodes.
func newScaled(t *testing.T, scale float64) *scaled {
	t.Helper()
	bd := bed.ForTest(t)
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freeport.Take(); err != nil {
			t.Fatal(err)
		}
	}
	file, err := bd.File("agent.hcl", fmt.Sprintf("name = \"s1\"\nenable_debug = true\ndata_dir = %q\nports {\n http = %d\n rpc = %d\n serf = %d\n}\nserver {\n enabled = true\n bootstrap_expect = 1\n}\nlimits {\n rpc_max_conns_per_client = 0\n}\n",
		filepath.Join(bd.Dir, "data"), ports[0], ports[1], ports[2]))
	if err != nil {
		t.Fatal(err)
	}
	s := &scaled{cluster: &cluster{t: t, bed: bd, addr: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}, scale: scale}
	s.agent = bd.Agent("one", "-config", file)
	s.start()
	// The nodes end when their standard input is closed.
	nodes := exec.Command(os.Getenv("BERTH_BENCH"), "nodes", "-server", fmt.Sprintf("127.0.0.1:%d", ports[1]), "-count", strconv.Itoa(s.of(5_000)))
	nodes.Stderr = os.Stderr
	in, err := nodes.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := nodes.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.Start(); err != nil {
		t.Fatalf("BERTH_BENCH: %v", err)
	}
	t.Cleanup(func() { in.Close(); _ = nodes.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatalf("the nodes did not get ready: %v", err)
	}
	s.counter = "http://" + strings.TrimSpace(line)
	return s
}

// jobs registers jobs, eight at a time, waits until all of their allocations run,
// and returns how long that took.
func (s *scaled) jobs(kind, prefix string, n, each int) time.Duration {
	s.t.Helper()
	begun := time.Now()
	g, ctx := errgroup.WithContext(s.t.Context())
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error {
			body, err := json.Marshal(map[string]any{"Job": map[string]any{
				"ID": fmt.Sprint(prefix, i), "Type": kind, "Update": map[string]any{"MaxParallel": 0},
				"TaskGroups": []any{map[string]any{
					"Name": "g", "Count": each, "EphemeralDisk": map[string]any{"SizeMB": 10},
					"Tasks": []any{map[string]any{
						"Name": "app", "Driver": "mock_driver", "Config": map[string]any{"run_for": "240h"},
						"LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1}, "Resources": map[string]any{"CPU": 100, "MemoryMB": 64},
					}},
				}},
			}})
			if err != nil {
				return err
			}
			return s.send(ctx, http.MethodPut, "/v1/jobs", body)
		})
	}
	if err := g.Wait(); err != nil {
		s.t.Fatal(err)
	}
	s.running += n * each
	s.wait(s.running)
	return time.Since(begun)
}

// wait waits until so many allocations were reported as running.
func (s *scaled) wait(n int) {
	s.t.Helper()
	resp, err := http.Get(fmt.Sprintf("%s/wait?running=%d", s.counter, n))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// send makes a request; a refusal with Retry-After is tried again.
func (s *scaled) send(ctx context.Context, method, path string, body []byte) error {
	for {
		req, err := http.NewRequestWithContext(ctx, method, s.addr+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusTooManyRequests:
			continue
		case resp.StatusCode != http.StatusOK:
			return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
		}
		return nil
	}
}

// frames is the script that measures the time between frames, in ms, while step
// is called at each of n frames.
func frames(n int, step string) string {
	return fmt.Sprintf(`new Promise((done) => {
		const times = []; let last = performance.now(), i = 0
		const step = (i) => { %s }
		const frame = (now) => { times.push(now - last); last = now; step(i); if (++i < %d) requestAnimationFrame(frame); else done(times.slice(1)) }
		requestAnimationFrame(frame)
	})`, step, n)
}

// gone waits until no allocation of a load runs any more, so that the next load
// does not pay for stopping this one.
func (s *scaled) gone() {
	s.t.Helper()
	query := url.Values{"filter": {`JobID matches "^load-" and ClientStatus == "running"`}, "per_page": {"1"}}
	for {
		resp, err := http.Get(s.addr + "/v1/allocations?" + query.Encode())
		if err != nil {
			s.t.Fatal(err)
		}
		var left []struct{ ID string }
		err = json.NewDecoder(resp.Body).Decode(&left)
		resp.Body.Close()
		if err != nil {
			s.t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		query.Set("index", resp.Header.Get("X-Nomad-Index"))
	}
}

// spread returns the median, the 99th of 100 and the greatest.
func spread(times []float64) string {
	slices.Sort(times)
	if len(times) == 0 {
		return "nothing was measured"
	}
	return fmt.Sprintf("p50 %.1f, p99 %.1f, max %.1f ms", times[len(times)/2], times[len(times)*99/100], times[len(times)-1])
}

// pages measures what one browser sees.
func (s *scaled) pages(b *browser, row func(string, string, ...any)) {
	p := b.tab(s.t, s.addr, desktopLight)
	var times []float64
	for _, x := range []struct{ path, text string }{{"/", "Needs attention"}, {"/jobs", "svc-"}, {"/nodes", "sim-"}, {"/topology", "By node pool"}} {
		times = times[:0]
		for range 5 {
			p.must("Network.clearBrowserCache", nil, nil)
			p.open(x.path)
			p.sees(x.text)
			var ms float64
			p.becomes("something is painted", `performance.getEntriesByName('first-contentful-paint').length > 0`)
			p.eval(`performance.getEntriesByName('first-contentful-paint')[0].startTime`, &ms)
			times = append(times, ms)
		}
		slices.Sort(times)
		row("first content of "+x.path+", five times without a cache", "p50 %.0f, max %.0f ms", times[2], times[4])
	}
	for _, x := range []struct{ path, text string }{{"/jobs", "svc-"}, {"/nodes", "sim-"}, {"/job/svc-0/allocations", "svc-0.g[0]"}, {"/evaluations", "job-register"}} {
		p.open(x.path)
		p.sees(x.text)
		p.eval(frames(240, `const l = document.querySelector('.list'); if (l) l.scrollTop += 180`), &times)
		row("scrolling "+x.path+", between frames", "%s", spread(times))
	}
	p.open("/topology")
	p.has("canvas[data-frame]")
	p.eval(frames(240, `const c = document.querySelector('canvas'), r = c.getBoundingClientRect(); c.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: r.left + (i * 13) % r.width, clientY: r.top + 30 + (i * 7) % Math.max(1, Math.min(r.height, 700) - 30)}))`), &times)
	row("topology under the pointer, between frames", "%s", spread(times))
	var draw string
	p.eval(`document.querySelector('canvas').dataset.frame`, &draw)
	row("topology, drawing of one frame", "%s ms", draw)
}

// cpu returns the processor time that the server used, in seconds.
func (s *scaled) cpu() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.agent.PID()))
	if err != nil {
		s.t.Fatal(err)
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	sum := 0.0
	for _, i := range []int{11, 12} { // utime and stime, in hundredths of a second
		n, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += n / 100
	}
	return sum
}

// openPages are what the five browsers have open.
var openPages = []string{"/", "/jobs", "/nodes", "/topology", "/evaluations"}

// load measures the load of B1 with five browsers open and with none, in turn, and
// what the server spends on browsers while nothing happens.
func (s *scaled) load(b *browser, row func(string, string, ...any)) {
	// Browsers run on other machines than servers: these give way.
	if err := syscall.Setpriority(syscall.PRIO_PGRP, b.group, 19); err != nil {
		s.t.Fatal(err)
	}
	var tabs []*tab
	for range openPages {
		tabs = append(tabs, b.tab(s.t, s.addr, desktopLight))
	}
	show := func(open bool) {
		for i, p := range tabs {
			if open {
				p.open(openPages[i])
				p.becomes("it is live", `[...document.querySelectorAll('[role=status]')].some((e) => e.innerText === 'Live')`)
			} else {
				p.must("Page.navigate", map[string]any{"url": "about:blank"}, nil)
			}
		}
	}
	const turns = 20
	var took, spent [2][]float64
	for turn := range 2 * turns {
		open := (turn + turn/2) % 2 // without, with, with, without, …
		show(open == 1)
		before := s.cpu()
		d := s.jobs("batch", fmt.Sprintf("load-%d-", turn), s.of(100), 100)
		took[open], spent[open] = append(took[open], d.Seconds()), append(spent[open], s.cpu()-before)
		for i := range s.of(100) {
			if err := s.send(s.t.Context(), http.MethodDelete, fmt.Sprintf("/v1/job/load-%d-%d?purge=true", turn, i), nil); err != nil {
				s.t.Fatal(err)
			}
		}
		s.gone()
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
	}
	n := float64(s.of(100) * 100)
	row("B1 without a browser", "%.0f allocations/s, %.2f s of processor", n/median(took[0]), median(spent[0]))
	row("B1 with five browsers", "%.0f allocations/s, %.2f s of processor", n/median(took[1]), median(spent[1]))
	row("loss of B1", "%.1f %%", 100*(1-median(took[0])/median(took[1])))
	row("processor spent on five browsers under B1", "%.2f s in %.1f s", median(spent[1])-median(spent[0]), median(took[1]))
	idle := func() float64 { before := s.cpu(); time.Sleep(20 * time.Second); return (s.cpu() - before) / 20 }
	show(false)
	quiet := idle()
	show(true)
	row("processor on five browsers while nothing happens", "%.1f %% of one", 100*(idle()-quiet))
}
