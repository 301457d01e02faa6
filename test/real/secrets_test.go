package real

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A variable is there after a kill, and nobody finds its value on the disk. A
// task has its identity, in its environment and in a file, and keeps it while
// the agent is away.
func TestSecretsOutliveAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	const canary = "canary-in-a-variable"
	a.good("var", "put", "app/db", "password="+canary)
	w.holds(a.good("operator", "root", "keyring", "rotate", "-full"), "active")
	a.good("job", "run", w.file("who.nomad", `
job "who" {
  group "g" {
    `+sh(`printf '%s' "$NOMAD_TOKEN" > "$NOMAD_TASK_DIR/env"; cmp "$NOMAD_TASK_DIR/env" "$NOMAD_SECRETS_DIR/nomad_token" && echo equal; echo ready; exec sleep 1000`, `
		identity {
		  env  = true
		  file = true
		}`)+`
  }
}`))
	first := a.allocs("who")[0].ID
	w.until("the task has its identity", func() string { return missing(a.berth("alloc", "logs", first, "main").Out, "equal\nready") })
	was := w.tasks()
	a.again()
	if amiss := same(was, w.tasks()); amiss != "" {
		t.Error(amiss)
	}
	if got := a.good("var", "get", "-item", "password", "app/db"); got != canary+"\n" {
		t.Errorf("after a kill it is %q", got)
	}
	a.again()
	err := filepath.WalkDir(a.dataDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it may be removed meanwhile
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(canary)) {
			t.Errorf("%s has the value of a variable", strings.TrimPrefix(path, a.dataDir))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	a.good("job", "stop", "-purge", "who")
}
