package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/top"
)

// The bundle has what is needed, and none of the secrets that were planted
// where users put them.
func TestDebugBundleHasNoSecrets(t *testing.T) {
	dir := t.TempDir()
	c, err := startCluster(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.addNode("n1", 1, options{}); err != nil {
		t.Fatal(err)
	}
	job := `job "web" {
  meta { key = "canary-meta" }
  group "front" {
    count = 2
    meta { other = "canary-group" }
    service {
      name = "web"
      provider = "nomad"
      meta { m = "canary-service" }
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/canary-command"
        args = ["--password", "canary-arg"]
      }
      env {
        PASSWORD = "canary-env"
        canary_ok = "x"
      }
    }
  }
}
`
	if err := os.WriteFile(filepath.Join(dir, "web.hcl"), []byte(job), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(args ...string) string {
		t.Helper()
		code, out, errs := runLine(t, dir, c.http, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	good("job", "run", "-detach", "web.hcl")
	good("var", "put", "-out", "none", "app/db", "password=canary-variable")
	good("namespace", "apply", "-description", "canary-description of it", "team")
	for _, name := range []string{"web.front[0]", "web.front[1]"} {
		if err := c.fare(name, "failed", "exec /bin/canary-command: no such file, password is canary-arg"); err != nil {
			t.Fatal(err)
		}
	}
	out := good("operator", "debug", "-duration", "300ms", "-interval", "100ms", "-pprof-duration", "0s", "-event-topic", "*", "-event-index", "1", "-token", "canary-token", "-verbose")
	found, err := filepath.Glob(filepath.Join(dir, "berth-debug-*.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("archives %v, %v\n%s", found, err, out)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the archive is readable by others: %v, %v", info.Mode(), err)
	}
	files := unpack(t, found[0])
	for name, text := range files {
		text = strings.ReplaceAll(text, "canary_ok", "") // the name of a variable stays
		if at := strings.Index(text, "canary"); at >= 0 || strings.Contains(text, "secret-n1") {
			t.Errorf("%s has a secret: …%s…", name, text[max(0, at-100):min(len(text), at+60)])
		}
	}
	for name, want := range map[string]string{
		"index.json": `"Files": [`, "cluster/jobs.json": `"ID": "web"`, "jobs/default.web.json": `"Count": 2`, "cluster/nodes.json": `"Name": "n1"`,
		"cluster/allocations.json": `"ClientStatus": "failed"`, "metrics/000.json": `"Gauges"`, "events.ndjson": `"Topic": "Job"`, "cluster/evaluations.json": `"TriggeredBy"`,
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s lacks %s:\n%.2000s", name, want, files[name])
		}
	}

	good("operator", "debug", "-duration", "0s", "-pprof-duration", "0s", "-output", "out")
	if found, _ := filepath.Glob(filepath.Join(dir, "out", "berth-debug-*", "cluster", "jobs.json")); len(found) != 1 {
		t.Errorf("the directory has %v", found)
	}
	for _, bad := range [][]string{{"-duration", "-1s"}, {"-interval", "1ms"}, {"-log-level", "loud"}, {"-max-nodes", "-1"}, {"-consul-token", "x"}, {"-output", "web.hcl/x", "-duration", "0s", "-pprof-duration", "0s"}} {
		if code, _, errs := runLine(t, dir, c.http, append([]string{"operator", "debug"}, bad...)...); code != 1 || !strings.HasPrefix(errs, "Error: ") {
			t.Errorf("%v: exit code %d, %s", bad, code, errs)
		}
	}

	topPages(t, dir, c)
	completes(t, dir, c)
}

// unpack returns the files of an archive, without their folder.
func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		_, base, _ := strings.Cut(h.Name, "/")
		out[base] = string(text)
	}
}

// topPages loads each page of "top": they lead from a job to the logs of its
// tasks.
func topPages(t *testing.T, dir string, c *cluster) {
	t.Helper()
	if code, _, errs := runLine(t, dir, c.http, "top"); code != 1 || !strings.Contains(errs, "top needs a terminal") {
		t.Errorf("without a terminal: exit code %d, %s", code, errs)
	}
	p := &Program{Name: "berth", Now: time.Now}
	s := &topSource{&call{Program: p, client: c.client}}
	load := func(at top.Place, want string) top.Page {
		t.Helper()
		page, err := s.Load(context.Background(), at)
		var all []string
		for _, r := range page.Rows {
			all = append(all, strings.Join(r.Cells, " | "))
		}
		if err != nil || len(page.Head) != 2 || !strings.Contains(strings.Join(all, "\n"), want) {
			t.Fatalf("%+v: %v, want %q in\n%s", at, err, want, strings.Join(all, "\n"))
		}
		return page
	}
	for _, v := range top.Views {
		load(top.Place{Kind: v}, "")
	}
	load(top.Place{Kind: "nodes"}, "n1")
	jobs := load(top.Place{Kind: "jobs"}, "web | default | service")
	allocs := load(jobs.Rows[0].Open, "web.front[0]")
	tasks := load(allocs.Rows[0].Open, "app | ")
	if tasks.Rows[0].Logs.Kind != "logs" {
		t.Errorf("a task leads to %+v", tasks.Rows[0].Logs)
	}
	load(tasks.Rows[0].Logs, "")
	load(load(top.Place{Kind: "nodes"}, "n1").Rows[0].Open, "web.front")
}

// completes asks for completions as a shell does.
func completes(t *testing.T, dir string, c *cluster) {
	t.Helper()
	for line, want := range map[string]string{
		"berth jo":                                     "job\n",
		"berth job st":                                 "start\nstatus\nstop\n",
		"berth job run -hcl2":                          "-hcl2-strict\n",
		"berth job status w":                           "web\n",
		"berth job stop -namespace ":                   "default\nteam\n",
		"berth alloc logs -job ":                       "web\n",
		"berth node status -address " + c.http + " ab": "abcdef01-0000-0000-0000-000000000001\n",
		"berth job run ":                               "",
		"berth nonsense ":                              "",
		"berth vali":                                   "validate\n",
	} {
		var out strings.Builder
		p := &Program{Name: "berth", Dir: dir, Out: &out, Err: io.Discard, Now: time.Now, Env: []string{"BERTH_ADDR=" + c.http, "COMP_LINE=" + line}}
		if code := p.Run(context.Background()); code != 0 || out.String() != want {
			t.Errorf("%q: exit code %d, %q, want %q", line, code, out.String(), want)
		}
	}
}
