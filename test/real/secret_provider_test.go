package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program of the node gives a task its secret. One that misbehaves fails the start
// with a clear event, and nothing that it printed is shown or kept anywhere.
func TestSecretsComeFromProviders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "plugins", "secrets")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const canary = "canary-of-a-provider"
	for name, script := range map[string]string{
		"store":   `echo "{\"result\":{\"password\":\"` + canary + `-$2-$STORE\"}}"`,
		"huge":    `yes ` + canary,
		"invalid": `echo ` + canary,
		"denied":  `echo '{"error":"no such secret"}'`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := w.agent("one", both, `client { common_plugin_dir = "`+filepath.Dir(dir)+`" }`)
	a.joined()
	job := func(provider string) string {
		return w.file(provider+".nomad", `
job "`+provider+`" {
  type = "batch"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    `+sh(`printf %s "$PASSWORD" | wc -c; sleep 1000`, `
    secret "db" {
      provider = "`+provider+`"
      path     = "apps/db"
      env { STORE = "url" }
    }
    env { PASSWORD = "${secret.db.password}" }`)+`
  }
}`)
	}
	a.good("job", "run", "-detach", job("store"))
	w.until("the task has its secret", func() string {
		all := a.allocs("store")
		if len(all) != 1 {
			return "it is not placed"
		}
		return missing(a.berth("alloc", "logs", all[0].ID, "main").Out, fmt.Sprint(len(canary+"-apps/db-url")))
	})
	for provider, want := range map[string]string{
		"huge": "it answered with more than 65536 bytes", "invalid": "its answer is not JSON", "denied": "it says: no such secret",
		"absent": "this node has no such provider",
	} {
		a.good("job", "run", "-detach", job(provider))
		w.until(provider+" fails clearly", func() string {
			all := a.allocs(provider)
			if len(all) != 1 {
				return "it is not placed"
			}
			out := a.good("alloc", "status", all[0].ID)
			if strings.Contains(out, canary) {
				t.Errorf("%s: the history shows what the provider printed:\n%s", provider, out)
			}
			return missing(strings.Join(strings.Fields(out), " "), want)
		})
	}
	for _, said := range []string{a.good("job", "explain", "invalid"), a.history()} {
		if strings.Contains(said, canary) {
			t.Error("what a provider printed is told")
		}
	}
}
