package network

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/internal/agent/driver/docker/dockertest"
	"berth/test/bed"
)

// typical are the files of jobspec/testdata/typical that run on one machine without
// images or programs from elsewhere: how many allocations there are, what becomes of
// them, and what one of their tasks says.
var typical = []struct {
	job    string
	args   []string // of job run
	then   []string // a command that starts an instance
	allocs int
	want   string
	task   string
	says   string
}{
	{"batch-report", []string{"-var", "name=Ada"}, nil, 1, "complete", "report", "report for Ada, by reports"},
	{"blue-green", nil, nil, 2, "running", "api", "version 1 on "},
	{"checks", nil, nil, 1, "running", "server", ""},
	{"cleanup", nil, []string{"job", "periodic", "force", "-detach", "cleanup"}, 1, "complete", "cleanup", "clean on "},
	{"dynamic", nil, nil, 3, "running", "", ""},
	{"exec-artifact", []string{"-var", "url=FILES"}, nil, 1, "running", "exporter", "metrics at "},
	{"functions", nil, nil, 1, "complete", "print", `"name":"Grace"`},
	{"identities", nil, nil, 1, "complete", "show", "all there"},
	{"java-class", nil, nil, 1, "complete", "run", "hello from Java run"},
	{"maintenance", nil, nil, 1, "running", "app", ""},
	{"multi-group", nil, nil, 4, "running", "", ""},
	{"old-web", nil, nil, 1, "running", "web", ""},
	{"raw-exec-service", nil, nil, 2, "running", "server", ""},
	{"sidecars", nil, nil, 1, "complete", "clean", "prepared\nworked\ncleaned"},
	{"variables", []string{"-var", "debug=false"}, nil, 1, "running", "app", "app:2.1.0 at info for payments"},
	{"whoami", []string{"-var", "image=server:1", "-var", "port=8080"}, nil, 1, "running", "whoami", ""},
	{"word-count", nil, []string{"job", "dispatch", "-detach", "word-count", "INPUT"}, 1, "complete", "count", "3"},
}

// The typical job files that can run here do, with real drivers and a real engine.
func TestTypicalJobFilesRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	b := bed.ForTest(t)
	for _, dir := range []string{b.Dir, filepath.Dir(b.Dir)} { // a task of another user must get to its directory
		must(t, os.Chmod(dir, 0o711))
	}
	engine, err := dockertest.Start()
	must(t, err)
	t.Cleanup(func() { must(t, engine.End()) })
	program := filepath.Join(b.Dir, "server")
	build(t, program, "./server")
	must(t, engine.Import(t.Context(), "server:1", image(t, program)))
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(script(t, "run.sh", "#!/bin/sh\necho metrics at $1\nexec sleep 100000\n")) // who asks for less sees an error
	}))
	defer files.Close()
	input, err := b.File("input.txt", "one two three\n")
	must(t, err)

	from := strings.Index(config, "  chroot_env {") // tasks see of the host what they see by default
	text := config[:from] + config[from+strings.Index(config[from:], "}\n")+2:] + dockerConfig[len(config):]
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent(), "ENDPOINT", engine.Host).Replace(text))
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	t.Cleanup(func() {
		if _, err := a.End(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	words := strings.NewReplacer("FILES", files.URL, "INPUT", input)
	berth := func(args ...string) string {
		t.Helper()
		for i := range args {
			args[i] = words.Replace(args[i])
		}
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP")), args...)
		must(t, err)
		if r.Code != 0 {
			t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
		}
		return r.Out
	}
	jobs := typical[:0:0]
	for _, x := range typical {
		if _, err := exec.LookPath("javac"); err != nil && strings.HasPrefix(x.job, "java") {
			t.Logf("%s: no javac", x.job)
			continue
		}
		jobs = append(jobs, x)
		file, err := filepath.Abs("../../jobspec/testdata/typical/" + x.job + ".nomad.hcl")
		must(t, err)
		berth(append(append([]string{"job", "run", "-detach"}, x.args...), file)...)
		if x.then != nil {
			berth(append([]string(nil), x.then...)...)
		}
	}
	for _, x := range jobs {
		var of []struct {
			ID, JobID, ClientStatus string
			TaskStates              map[string]struct {
				Events []struct{ DisplayMessage string }
			}
		}
		must(t, bed.Until(t.Context(), x.job+" is "+x.want, func() string {
			must(t, json.Unmarshal([]byte(call(t, a, "/v1/allocations")), &of))
			n := 0
			amiss := ""
			for _, y := range of {
				if y.JobID == x.job || strings.HasPrefix(y.JobID, x.job+"/") {
					if n++; y.ClientStatus != x.want {
						amiss = y.ClientStatus
					} else if x.says != "" {
						r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP")), "alloc", "logs", y.ID, x.task)
						if err != nil || !strings.Contains(r.Out, x.says) {
							amiss = fmt.Sprint(err, r)
						}
					}
				}
			}
			if n != x.allocs {
				return fmt.Sprintf("%d allocations: %+v", n, of)
			}
			return amiss
		}))
	}
	must(t, bed.Until(t.Context(), "the services are well", func() string {
		for _, name := range []string{"checks-http", "raw-exec-service", "whoami", "old-web", "shop-api"} {
			r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP")), "service", "info", name)
			if err != nil || r.Code != 0 {
				return fmt.Sprint(name, err, r.Err)
			}
		}
		return ""
	}))
	for _, x := range jobs {
		berth("job", "stop", "-purge", "-detach", x.job)
	}
	untilNothingIsLeft(t, b.Dir)
}

// script is an archive of a program.
func script(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
	_, werr := w.Write([]byte(text))
	if err := errors.Join(err, werr, w.Close(), z.Close()); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}
