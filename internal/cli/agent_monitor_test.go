package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/config"
	"berth/internal/daemon"
)

// wholeAgent starts an agent with a server, a node and a log file.
func wholeAgent(t *testing.T, settings string) (*daemon.Daemon, *daemon.Log) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.hcl")
	if err := os.WriteFile(file, []byte("name = \"n1\"\nclient { network_interface = \"lo\" }\n"+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load([]string{file}, config.Overrides{Dev: true, Flags: []config.Flag{
		{Key: "data_dir", Value: filepath.Join(dir, "data")}, {Key: "ports.http", Value: 0}, {Key: "ports.rpc", Value: 0},
		{Key: "log_file", Value: filepath.Join(dir, "log", "a.log")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := daemon.OpenLog(conf, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(daemon.Config{Config: conf, Log: log.Logger, Output: log, Version: "test", NomadVersion: "2.0.5"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		log.Close()
	})
	return d, log
}

// until is an output that tells when it has a text.
type until struct {
	text string
	do   func()

	mu  sync.Mutex
	all strings.Builder
	did bool
}

// Write implements io.Writer.
func (w *until) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all.Write(b)
	if !w.did && strings.Contains(w.all.String(), w.text) {
		w.did = true
		w.do()
	}
	return len(b), nil
}

// The log of an agent is followed until an interrupt, at any level and of any
// agent; what it wrote before is in its file, and in the bundle for people who
// look for a defect.
func TestMonitorCommand(t *testing.T) {
	d, log := wholeAgent(t, "")
	run := func(ctx context.Context, out *until, args ...string) (int, string) {
		errs := &until{}
		errs.did = true
		p := &Program{Name: "berth", Args: args, Env: []string{"BERTH_ADDR=" + d.HTTPAddr()}, Dir: t.TempDir(), In: strings.NewReader(""), Out: out, Err: errs, Now: time.Now}
		return p.Run(ctx), errs.all.String()
	}
	// The node must be known before it can be named.
	for code := 1; code != 0; {
		code, _ = run(t.Context(), &until{did: true}, "node", "status", d.NodeID().String())
	}
	for _, args := range [][]string{{"-log-level", "debug"}, {"-server-id", "leader", "-json"}, {"-node-id", d.NodeID().String()[:8], "-log-include-location"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &until{text: "a line to follow", do: cancel}
		// The command may begin after any one line: lines come until it ends.
		ended := make(chan struct{})
		var written sync.WaitGroup
		written.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
					log.Info("a line to follow")
				}
			}
		})
		code, errs := run(ctx, out, append([]string{"monitor"}, args...)...)
		close(ended)
		written.Wait()
		cancel()
		text := out.all.String()
		if code != 0 || errs != "" || strings.Contains(text, `"msg":"a line`) != (args[len(args)-1] == "-json") || strings.Contains(text, "source=") != (args[len(args)-1] == "-log-include-location") {
			t.Errorf("%v: exit code %d, %s\n%s", args, code, errs, text)
		}
	}
	for want, args := range map[string][]string{
		"must be trace, debug, info, warn or error": {"operator", "debug", "-log-level", "loud"}, "unknown log level \"loud\"": {"monitor", "-log-level", "loud"},
		"cannot be used together": {"monitor", "-node-id", "x", "-server-id", "y"}, "unknown Nomad server s9": {"monitor", "-server-id", "s9"},
		"one of -on-disk and -service-name is required": {"monitor", "export"}, "-logs-since and -follow need": {"monitor", "export", "-on-disk", "-follow"},
		"-log-file-export and -log-lookback": {"operator", "debug", "-log-file-export", "-log-lookback", "1h"},
	} {
		if code, errs := run(t.Context(), &until{did: true}, args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	out := &until{did: true}
	if code, errs := run(t.Context(), out, "monitor", "export", "-on-disk", "-server-id", "n1"); code != 0 || !strings.Contains(out.all.String(), "a line to follow") {
		t.Errorf("export: exit code %d, %s\n%s", code, errs, out.all.String())
	}
	dir := t.TempDir()
	for _, args := range [][]string{{"-log-file-export"}, {"-log-lookback", "1h"}} {
		code, text, errs := runLine(t, dir, d.HTTPAddr(), append([]string{"operator", "debug", "-duration", "0s", "-pprof-duration", "0s", "-output", args[0]}, args...)...)
		found, _ := filepath.Glob(filepath.Join(dir, args[0], "*", "server", "n1.global", "monitor-export.log"))
		if code != 0 || len(found) != 1 {
			t.Fatalf("%v: exit code %d, %v\n%s%s", args, code, found, text, errs)
		}
		if b, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(b), "a line to follow") {
			t.Errorf("%v: %s %v", args, b, err)
		}
	}
}

// Old lines of a log are left out, with what follows each of them.
func TestLinesSince(t *testing.T) {
	log := "time=2026-01-02T03:00:00Z level=INFO msg=old\nits second line\n{\"time\":\"2026-01-02T04:00:00.5Z\",\"msg\":\"new\"}\nits second line\n"
	for since, want := range map[string]string{
		"2026-01-02T02:00:00Z": log, "2026-01-02T03:30:00Z": log[strings.Index(log, "{"):], "2026-01-02T05:00:00Z": "",
	} {
		at, err := time.Parse(time.RFC3339, since)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(linesSince([]byte(log), at)); got != want {
			t.Errorf("since %s: %q", since, got)
		}
	}
}
