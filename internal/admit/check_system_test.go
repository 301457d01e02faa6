package admit

import (
	"strings"
	"testing"

	"berth"
	"berth/internal/decode"
)

// Blocks that make no sense for jobs that run on every node are refused by
// name; absent blocks get their defaults.
func TestPerNodeJobs(t *testing.T) {
	for _, c := range []struct{ job, want string }{
		{`"Type":"system"`, ""},
		{`"Type":"sysbatch"`, ""},
		{`"Type":"system","Update":{"MaxParallel":3}`, ""},
		{`"Type":"system","Update":{"MaxParallel":0,"Stagger":0}`, ""},
		{`"Type":"system","Update":{"MaxParallel":1,"Stagger":0}`, "job.update.stagger: must be 1ms to 876000h0m0s, got 0s"},
		{`"Type":"system","Update":{"Canary":50,"AutoRevert":true,"AutoPromote":true}`, ""},
		{`"Type":"system","Update":{"AutoPromote":true}`, "job.update.auto_promote: needs canary to be above 0"},
		{`"Type":"sysbatch","Update":{"MaxParallel":1}`, "job.update: is not for jobs of type sysbatch"},
		{`"Type":"system","Affinities":[{"LTarget":"${node.class}","RTarget":"a"}]`, "job.affinity: is not for jobs of type system"},
		{`"Type":"sysbatch","Affinities":[{"LTarget":"${node.class}","RTarget":"a"}]`, "job.affinity: is not for jobs of type sysbatch"},
		{`"Type":"system","Spreads":[{"Attribute":"${node.class}"}]`, "job.spread: is not for jobs of type system"},
		{`"Type":"system","Reschedule":{"Attempts":1,"Interval":"1h","Delay":"5s","DelayFunction":"constant"}`, "job.reschedule: is not for jobs of type system"},
		{`"Type":"system","Reschedule":{"Attempts":0,"Unlimited":false}`, ""}, // as clients write it that fill everything in
		{`"Type":"system","Migrate":{}`, "job.migrate: is not for jobs of type system"},
	} {
		j, text := perNodeJob(t, `{"ID":"log",`+c.job+`,"TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}`)
		if c.want == "" && text != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", c.job, text, c.want)
		}
		if j != nil && j.Type == berth.TypeSystem && j.Update == nil {
			t.Errorf("%s: a system job has no update block", c.job)
		}
	}
	two := `"TaskGroups":[{"Name":"g","Count":2,"Tasks":[{"Name":"t","Driver":"mock_driver"}]}]}`
	if _, text := perNodeJob(t, `{"ID":"log","Type":"system",`+two); !strings.Contains(text, "job.group[g].count: must be 0 or 1 for jobs of type system") {
		t.Error(text)
	}
	if _, text := perNodeJob(t, `{"ID":"fix","Type":"sysbatch",`+two); text != "" {
		t.Error(text)
	}
}

func perNodeJob(t *testing.T, text string) (*berth.Job, string) {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	j, err := DecodeJob(tree, FromJSON)
	if err != nil {
		return nil, err.Error()
	}
	return j, ""
}
