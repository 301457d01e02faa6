package admit_test

import (
	"strings"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
)

// jobWithIdentities returns a job whose task has the identities.
func jobWithIdentities(t *testing.T, identities string) (*berth.Job, error) {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(`{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver","Identities":[` + identities + `]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return admit.DecodeJob(tree, admit.FromJSON)
}

// The identity without a name is the default one, and all are complete.
func TestIdentities(t *testing.T) {
	j, err := jobWithIdentities(t, `{"Env":true}, {"Name":"aws","Audience":["a"],"ChangeMode":"signal","ChangeSignal":"sighup","TTL":"1h","File":true,"Filepath":"local/a.jwt"}`)
	if err != nil {
		t.Fatal(err)
	}
	task := j.TaskGroups[0].Tasks[0]
	if w := task.Identity; w == nil || w.Name != "default" || !w.Env || w.ChangeMode != "noop" {
		t.Errorf("the default one is %+v", w)
	}
	if len(task.Identities) != 1 || task.Identities[0].ChangeSignal != "SIGHUP" || task.IdentityNamed("aws") == nil || task.IdentityNamed("none") != nil || task.IdentityNamed("") != task.Identity {
		t.Errorf("the others are %+v", task.Identities)
	}
	for in, want := range map[string]string{
		`{"Name":"a b"}`:                               "identity[a b].name: must have 1 to 128 letters, digits, dashes and underscores",
		`{"Name":"a"},{"Name":"a"}`:                    "identity[a].name: is defined twice",
		`{},{}`:                                        "identity[].name: must have 1 to 128",
		`{"Name":"a","TTL":"1s"}`:                      "identity[a].ttl: must be 0 or at least 10s, got 1s",
		`{"Name":"a","TTL":-5}`:                        "identity[a].ttl: must be 0 or at least 10s",
		`{"Name":"a","ChangeMode":"script"}`:           "identity[a].change_mode: must be noop, signal or restart, got \"script\"",
		`{"Name":"a","ChangeMode":"signal"}`:           "identity[a].change_signal: unknown signal",
		`{"Name":"a","ChangeSignal":"SIGHUP"}`:         "identity[a].change_signal: has no effect",
		`{"Name":"a","Filepath":"local/x"}`:            "identity[a].filepath: has no effect without file = true",
		`{"Name":"a","File":true,"Filepath":"../x"}`:   "identity[a].filepath: must be the path of a file below",
		`{"Name":"a","File":true,"Filepath":"/etc/x"}`: "identity[a].filepath: must be the path of a file below",
		`{"Name":"a","Audience":[""]}`:                 "identity[a].aud: must not have an empty audience",
		`{"Name":"a","ServiceName":"s"}`:               "identity.service_name: is not supported",
		`{"Name":"a","ExtraClaims":["x",""]}`:          "identity[a].extra_claims: must have different names of 1 to 128 bytes, got \"\"",
		`{"Name":"a","ExtraClaims":["x","x"]}`:         "identity[a].extra_claims: must have different names of 1 to 128 bytes, got \"x\"",
		`{"Name":"a","File":true,"Filepath":"x"},{"Name":"b","File":true,"Filepath":"x"}`: `identity[b].filepath: "x" is the file of two identities`,
	} {
		if _, err := jobWithIdentities(t, in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwanted: %s", in, err, want)
		}
	}
}
