package admit_test

import (
	"strings"
	"testing"

	"berth/internal/admit"
	"berth/internal/decode"
)

// Secrets come from variables or from a program of the node, which a job can ask
// but not steer.
func TestProvidersOfSecrets(t *testing.T) {
	for _, c := range []struct{ secret, want string }{
		{`"Provider":"nomad","Path":"a"`, ""},
		{`"Provider":"store-1","Path":"a b","Env":{"STORE_ADDR":"https://store"}`, ""},
		{`"Provider":"vault","Path":"a"`, `.provider: provider "vault" is not supported`},
		{`"Provider":"../store","Path":"a"`, ".provider: must be nomad, or the name of a program"},
		{`"Provider":"store"`, ".path: must be 1 to 4096 bytes"},
		{`"Provider":"store","Path":"a","Config":{"namespace":"x"}`, ".config: is only for the provider nomad"},
		{`"Provider":"store","Path":"a","Env":{"LD_PRELOAD":"x"}`, `.env: "LD_PRELOAD" cannot be set`},
		{`"Provider":"store","Path":"a","Env":{"BASH_ENV":"x"}`, `.env: "BASH_ENV" cannot be set`},
		{`"Provider":"store","Path":"a","Env":{"CPI_OPERATION":"x"}`, `.env: "CPI_OPERATION" cannot be set`},
		{`"Provider":"store","Path":"a","Env":{"PATH":"x"}`, `.env: "PATH" cannot be set`},
	} {
		tree, err := decode.ParseJSON([]byte(`{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver","Secrets":[{"Name":"s",` + c.secret + `}]}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = admit.DecodeJob(tree, admit.FromJSON)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.secret, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), "job.group[g].task[t].secret[s]"+c.want)):
			t.Errorf("%s: got %v, want %s", c.secret, err, c.want)
		}
	}
}
