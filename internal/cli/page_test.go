package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"
)

// What to do next is told to people at a terminal, apart from the output.
func TestNextCommandsAreForPeople(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		var out, errs bytes.Buffer
		c := &call{bold: terminal}
		c.Program = &Program{Name: "berth", Out: &out, Err: &errs}
		c.suggest("job explain web", "alloc logs -job \x1b[31mweb")
		want := ""
		if terminal {
			want = "Next: berth job explain web\nNext: berth alloc logs -job \ufffd[31mweb\n"
		}
		if out.Len() > 0 || errs.String() != want {
			t.Errorf("terminal %t: %q and, apart, %q; want %q", terminal, &out, &errs, want)
		}
	}
}

// A server without gossip has no port.
func TestAServerWithoutGossipHasNoPort(t *testing.T) {
	rows := memberRows([]op.AgentMember{{Name: "dev", Addr: "127.0.0.1"}, {Name: "one", Addr: "127.0.0.1", Port: 4648}}, nil, false)
	if rows[1][2] != "-" || rows[2][2] != "4648" {
		t.Errorf("ports %q and %q, want - and 4648", rows[1][2], rows[2][2])
	}
}

// An evaluation of another job in a trace says whose it is.
func TestATraceNamesOtherJobs(t *testing.T) {
	eval := func(job, space string, depth int) op.TracedEval {
		return op.TracedEval{Depth: depth, Eval: op.Eval{JobID: berth.JobID(job), Namespace: space, TriggeredBy: berth.TriggerJobRegister, Status: berth.EvalComplete, CreateTime: 1}}
	}
	all := []op.TracedEval{eval("urgent", "prod", 0), eval("other", "default", 1), eval("web", "default", 1)}
	verbose := false
	tr := evalTrace{verbose: &verbose, job: berth.JobKey{Namespace: "default", ID: "web"}}
	var heads []string
	for i := range all {
		p := &page{}
		c := &call{}
		c.Program = &Program{Now: func() time.Time { return time.Unix(2, 0) }}
		tr.draw(c, p, all, i)
		head, _, _ := strings.Cut(p.text.String(), "\n")
		_, head, _ = strings.Cut(head, "  ")
		heads = append(heads, strings.TrimSpace(head))
	}
	want := `job-register of job "urgent" in namespace "prod", complete|job-register of job "other", complete|job-register, complete`
	if got := strings.Join(heads, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
