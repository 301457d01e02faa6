package network

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"berth/test/bed"
)

// exampleBed is an agent that runs examples.
type exampleBed struct {
	*bed.Bed
	t     *testing.T
	agent *bed.Agent
}

// newExampleBed starts an agent whose tasks see of the host what they see by default.
func newExampleBed(t *testing.T, more string) *exampleBed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	b := bed.ForTest(t)
	from := strings.Index(config, "  chroot_env {")
	text := config[:from] + config[from+strings.Index(config[from:], "}\n")+2:] + more
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent()).Replace(text))
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	t.Cleanup(func() {
		if _, err := a.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	return &exampleBed{b, t, a}
}

// berth runs a command that must succeed.
func (b *exampleBed) berth(args ...string) string {
	b.t.Helper()
	r, err := b.Run(b.t.Context(), b.Binary, b.Environ("BERTH_ADDR="+b.agent.Banner("HTTP")), args...)
	must(b.t, err)
	if r.Code != 0 {
		b.t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
	}
	return r.Out
}

// until waits until amiss returns "".
func (b *exampleBed) until(what string, amiss func() string) {
	b.t.Helper()
	must(b.t, bed.Until(b.t.Context(), what, amiss))
}

// example is the path of an example.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../examples/" + name)
	must(t, err)
	return path
}

// archive is an archive of one file of the examples.
func archive(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(example(t, "app/"+name))
	must(t, err)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	must(t, a.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
	_, err = a.Write(text)
	must(t, err)
	must(t, a.Close())
	must(t, z.Close())
	return out.Bytes()
}

// An isolated program comes as an artifact, says what a variable holds, and restarts
// one instance after another when that changes.
func TestExampleOfARollingRestart(t *testing.T) {
	b := newExampleBed(t, "")
	text := archive(t, "app.py")
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	defer files.Close()
	b.berth("var", "put", "nomad/jobs/app", "greeting=Hello")
	b.berth("job", "run", "-detach", "-var", "source="+files.URL+"/app.tar.gz", example(t, "app.nomad.hcl"))
	say := func(greeting string) {
		t.Helper()
		b.until("both instances say "+greeting, func() string {
			var at []struct {
				Address string
				Port    int
			}
			if err := json.Unmarshal([]byte(b.berth("service", "info", "-json", "app")), &at); err != nil || len(at) != 2 {
				return fmt.Sprint(err, at)
			}
			for _, x := range at {
				answer, err := bed.Call(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d/", x.Address, x.Port), "")
				if err != nil || !strings.HasPrefix(answer.Text, greeting+" from ") {
					return fmt.Sprint(err, answer.Text)
				}
			}
			return ""
		})
	}
	b.until("the service is there", func() string {
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+b.agent.Banner("HTTP")), "service", "info", "app")
		if err != nil || r.Code != 0 {
			return fmt.Sprint(err, r.Err)
		}
		return ""
	})
	say("Hello")
	b.berth("var", "put", "-force", "nomad/jobs/app", "greeting=Goodbye")
	say("Goodbye")
	var all []struct {
		ClientStatus string
		TaskStates   map[string]struct{ Restarts int }
	}
	b.until("each instance has restarted once and runs", func() string {
		must(t, json.Unmarshal([]byte(call(t, b.agent, "/v1/job/app/allocations")), &all))
		for _, a := range all {
			if a.ClientStatus != "running" || a.TaskStates["app"].Restarts != 1 {
				return fmt.Sprintf("one is %s after %d restarts", a.ClientStatus, a.TaskStates["app"].Restarts)
			}
		}
		return ""
	})
	b.berth("job", "stop", "-purge", "-detach", "app")
	untilNothingIsLeft(t, b.Dir)
}

// A group finds another one by its name over networks of their own.
func TestExampleOfNames(t *testing.T) {
	b := newExampleBed(t, "")
	b.berth("job", "run", "-detach", example(t, "names.nomad.hcl"))
	b.until("the caller hears the catalog", func() string {
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+b.agent.Banner("HTTP")), "alloc", "logs", "-job", "names", "-group", "caller")
		if err != nil || !strings.Contains(r.Out, "three books\n") {
			return fmt.Sprint(err, r)
		}
		return ""
	})
	b.berth("job", "stop", "-purge", "-detach", "names")
	untilNothingIsLeft(t, b.Dir)
}

// What a task writes goes to a collector, with labels.
func TestExampleOfLogs(t *testing.T) {
	var mu sync.Mutex
	var got strings.Builder
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		text, _ := io.ReadAll(z) // what is cut short is sent again
		mu.Lock()
		defer mu.Unlock()
		got.Write(text)
	}))
	defer collector.Close()
	sink, err := os.ReadFile(example(t, "logs.agent.hcl"))
	must(t, err)
	b := newExampleBed(t, strings.ReplaceAll(string(sink), "http://127.0.0.1:9880", collector.URL))
	b.berth("job", "run", "-detach", example(t, "logs.nomad.hcl"))
	b.until("the collector has both lines", func() string {
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{"one line", "a complaint", `"cluster":"example"`, `"job":"logs"`, `"task":"speaker"`, `"stderr"`} {
			if !strings.Contains(got.String(), want) {
				return want + " is not in " + got.String()
			}
		}
		return ""
	})
	b.berth("job", "stop", "-purge", "-detach", "logs")
	untilNothingIsLeft(t, b.Dir)
}
