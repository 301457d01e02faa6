package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/daemon"
)

// runLine runs a command line and returns its exit code and outputs.
func runLine(t *testing.T, dir, addr string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	p := &Program{Name: "berth", Args: args, Dir: dir, In: strings.NewReader(""), Out: &o, Err: &e, Now: time.Now, Env: []string{"BERTH_ADDR=" + addr}}
	code = p.Run(context.Background())
	return code, o.String(), e.String()
}

// The data of a server that is stopped can be read: its log, the state that it
// leads to, and a snapshot of it. None shows a secret.
func TestDataOfAStoppedServer(t *testing.T) {
	dir := t.TempDir()
	c, err := startCluster(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	stop := c.stop
	defer func() {
		if stop != nil {
			stop()
		}
	}()
	if _, err := c.addNode("n1", 1, options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "web.hcl"), []byte("job \"web\" {\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n config {\n command = \"/bin/true\"\n}\n}\n}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := runLine(t, dir, c.http, args...)
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("%v: exit code %d, want %q\n%s%s", args, code, want, out, errs)
		}
		return out
	}
	good("", "job", "run", "-detach", "web.hcl")
	good("written", "operator", "snapshot", "save", "a.snap")
	good("written", "operator", "snapshot", "save", "-redact", "b.snap")
	if code, _, errs := runLine(t, dir, c.http, "operator", "raft", "info", "data"); code != 1 || !strings.Contains(errs, "Error: ") {
		t.Errorf("the log of a running server: exit code %d, %s", code, errs)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
	stop = nil

	good("Peers", "operator", "raft", "info", "data")
	good(`"First": `, "operator", "raft", "info", "-json", "data")
	logs := good(`"Type":"RegisterJob"`, "operator", "raft", "logs", "data")
	good("    \"Index\": ", "operator", "raft", "logs", "-pretty", "data")
	state := good(`"JobID":"web"`, "operator", "raft", "state", "data")
	first := good(`"LogIndex": 2`, "operator", "raft", "state", "-last-index", "2", "data")
	if strings.Contains(first, "web") {
		t.Errorf("the state at log entry 2 has the job:\n%s", first)
	}
	snapshot := good(`"ID":"web"`, "operator", "snapshot", "state", "a.snap")
	for name, text := range map[string]string{"logs": logs, "state": state, "snapshot": snapshot} {
		if strings.Contains(text, "secret-n1") {
			t.Errorf("%s shows the secret of the node", name)
		}
	}
	if !json.Valid([]byte(state)) || !json.Valid([]byte(snapshot)) {
		t.Error("the state is no JSON")
	}
	only := good(`"Evals"`, "operator", "snapshot", "state", "-filter", `JobID == "web"`, "a.snap")
	if strings.Contains(only, `"Nodes"`) {
		t.Errorf("the filter lets nodes through:\n%s", only)
	}
	if code, _, errs := runLine(t, dir, "", "operator", "snapshot", "state", "-filter", `Nope == 1`, "a.snap"); code != 1 || !strings.Contains(errs, "Nope") {
		t.Errorf("an unknown field: exit code %d, %s", code, errs)
	}

	// Redacted, as it was saved or later, it has no secrets and is whole.
	raw := func(file string) bool {
		f, err := os.Open(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		secrets, err := daemon.SecretsIn(f)
		if err != nil {
			t.Fatal(err)
		}
		return secrets > 0
	}
	if !raw("a.snap") || raw("b.snap") {
		t.Errorf("secrets in a.snap: %t, in b.snap: %t", raw("a.snap"), raw("b.snap"))
	}
	good("Redacted", "operator", "snapshot", "redact", "a.snap")
	if raw("a.snap") {
		t.Error("redact leaves a secret")
	}
	good("0 invariants violated", "operator", "snapshot", "inspect", "-check", "a.snap")

	for _, bad := range [][]string{
		{"operator", "raft", "info", "nope"}, {"operator", "raft", "logs", "."}, {"operator", "raft", "state", "-last-index", "-1", "data"},
		{"operator", "client-state", "nope"}, {"operator", "client-state", "data"}, {"operator", "snapshot", "redact", "web.hcl"}, {"operator", "snapshot", "state", "nope"},
	} {
		if code, out, errs := runLine(t, dir, "", bad...); code != 1 || out != "" || !strings.HasPrefix(errs, "Error: ") {
			t.Errorf("%v: exit code %d, %q, %q", bad, code, out, errs)
		}
	}
}
