package real

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/bed"
)

// auditLine is what the test reads of a line of the audit log.
type auditLine struct {
	Payload struct {
		ID, Stage string
		Auth      struct {
			AccessorID string `json:"accessor_id"`
			Name, Type string
		}
		Request struct {
			Route  string
			Object map[string]string
			Meta   struct{ Websocket bool } `json:"request_meta"`
		}
		Response *struct {
			StatusCode int     `json:"status_code"`
			Millis     float64 `json:"latency_ms"`
		}
	}
}

// auditOf returns the lines of an audit log about an operation.
func auditOf(t *testing.T, file, route string) (out []auditLine) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var l auditLine
		if json.Unmarshal([]byte(line), &l) == nil && l.Payload.Request.Route == route { // the last line may be half written
			out = append(out, l)
		}
	}
	return out
}

// The audit log says who ran which program in which task, when the session began,
// and that it ended. What was typed and printed is not in it, nor are arguments.
func TestSessionsAreAttributed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "audit.log")
	a := w.agent("one", both, `
acl { enabled = true }
audit {
  enabled = true
  sink "file" {
    type               = "file"
    format             = "json"
    delivery_guarantee = "enforced"
    path               = "`+file+`"
  }
}`)
	a.healthy()
	const manager = "7c2a5a0e-3f5b-4c53-9c0a-0d7c9a1b2e41"
	if _, err := a.try("PUT", "/v1/acl/bootstrap", `{"BootstrapSecret": "`+manager+`"}`, nil); err != nil {
		t.Fatal(err)
	}
	w.until("the node is ready", func() string { return missing(a.may(manager, "node", "status"), "ready") })
	a.may(manager, "acl", "policy", "apply", "exec", w.file("exec.hcl", `namespace "default" {
  policy       = "read"
  capabilities = ["alloc-exec", "alloc-node-exec"]
}`))
	who := strings.Fields(a.may(manager, "acl", "token", "create", "-name", "ann", "-policy", "exec", "-t", "{{.AccessorID}} {{.SecretID}}"))
	a.may(manager, "job", "run", w.file("web.nomad", `job "web" {
  group "g" {
    `+sh("sleep 1000")+`
  }
}`))
	id := a.may(manager, "job", "allocs", "-t", "{{range .}}{{.ID}}{{end}}", "web")
	if out := a.may(who[1], "alloc", "exec", "-task", "main", id, "/bin/sh", "-c", "echo printed-canary; exit 0"); out != "printed-canary" {
		t.Errorf("it printed %q", out)
	}
	var lines []auditLine
	w.until("the end of the session is in the log", func() string {
		if lines = auditOf(t, file, "alloc.exec"); len(lines) < 2 {
			return fmt.Sprint(len(lines), " lines")
		}
		return ""
	})
	for i, stage := range []string{"OperationReceived", "OperationComplete"} {
		p := &lines[i].Payload
		if p.Stage != stage || p.ID != lines[0].Payload.ID || p.Auth.Name != "ann" || p.Auth.AccessorID != who[0] || p.Auth.Type != "client" {
			t.Errorf("%s: %+v", stage, p)
		}
		if o := p.Request.Object; o["AllocID"] != id || o["Task"] != "main" || o["Command"] != "/bin/sh" || !p.Request.Meta.Websocket {
			t.Errorf("%s is about %v, by websocket: %v", stage, o, p.Request.Meta.Websocket)
		}
	}
	if r := lines[1].Payload.Response; r == nil || r.StatusCode != 101 || r.Millis <= 0 {
		t.Errorf("it ended with %+v", r)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "printed-canary") {
		t.Errorf("what was run or printed is in the audit log: %v", err)
	}
	a.may(manager, "job", "stop", "-purge", "web")
}

// A task calls the cluster through its own socket with its own identity, and still can
// after the agent was killed and started again.
func TestTheTaskAPIOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(bed.SuiteDir(), "berth")
	a.good("job", "run", w.file("asks.nomad", `job "asks" {
  group "g" {
    `+sh(`while :; do BERTH_TOKEN=$NOMAD_TOKEN BERTH_ADDR=unix://$NOMAD_SECRETS_DIR/api.sock `+program+` job status asks >/dev/null && echo ok >>`+ran+`; sleep 0.2; done`, `
    identity { env = true }`)+`
  }
}`))
	count := func() int {
		b, _ := os.ReadFile(ran) // not there yet: nothing was answered
		return strings.Count(string(b), "ok")
	}
	more := func(what string, than int) {
		t.Helper()
		w.until(what, func() string {
			if n := count(); n <= than {
				return fmt.Sprint(n, " answers")
			}
			return ""
		})
	}
	more("the task is answered", 0)
	a.again()
	more("it is answered by the next agent", count()+1)
	if al := a.allocs("asks")[0]; al.TaskStates["main"].Restarts != 0 {
		t.Errorf("the task was started again: %s", al.TaskStates["main"].story())
	}
	a.good("job", "stop", "-purge", "asks")
}
