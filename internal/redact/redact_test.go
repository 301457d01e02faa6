package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Secrets go, and what happened stays.
func TestJSON(t *testing.T) {
	in := `{"ID":"web","SecretID":"canary-1","Env":{"PASSWORD":"canary-2","N":7},"Meta":{"a":["canary-3"]},"Status":"running","Token":"",
		"Config":{"args":["-p","canary-4"]},"NextToken":"default.web","Nested":[{"auth_token":"canary-5"},{"note":"my-token is here"}],"Count":3}`
	out := string(JSON([]byte(in), "my-token"))
	if strings.Contains(out, "canary") || strings.Contains(out, "my-token") || strings.Contains(out, "7") {
		t.Errorf("a secret stays:\n%s", out)
	}
	for _, want := range []string{`"ID": "web"`, `"Status": "running"`, `"Count": 3`, `"NextToken": "default.web"`, `"PASSWORD": "<redacted>"`, `"Token": ""`} {
		if !strings.Contains(out, want) {
			t.Errorf("want %s:\n%s", want, out)
		}
	}
	if got := string(JSON([]byte("canary"))); got != `"<redacted>"` {
		t.Errorf("of no JSON: %s", got)
	}
}

// In logs, the value behind the name of a secret goes.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"level=INFO msg=started addr=127.0.0.1:4646": "level=INFO msg=started addr=127.0.0.1:4646",
		"msg=login token=abc-def user=x":             "msg=login token=<redacted> user=x",
		`{"secret_id": "abc", "n": 1}`:               `{"secret_id": <redacted>, "n": 1}`,
		"vault_token: s.123\nnext line":              "vault_token: <redacted>\nnext line",
		`password="two words" ok=1`:                  `password=<redacted> ok=1`,
		"Authorization: Basic\n":                     "Authorization: <redacted>\n",
		"what a mine says":                           "what a <redacted> says",
	} {
		if got := Text(in, "mine"); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// Whatever the value of a secret is and wherever it stands, it goes.
func TestNothingStays(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		secret := "canary" + rapid.StringMatching(`[a-z0-9"\\ =:]{0,8}`).Draw(r, "secret")
		var v any = secret
		under := rapid.SampledFrom(append([]string{"SecretID", "auth_token", "Password"}, Blocks...)).Draw(r, "under")
		for range rapid.IntRange(0, 3).Draw(r, "deep") {
			if rapid.Bool().Draw(r, "list") {
				v = []any{v, 1}
			} else {
				v = map[string]any{"x": v}
			}
		}
		text, err := json.Marshal(map[string]any{"a": []any{map[string]any{under: v}}})
		if err != nil {
			t.Fatal(err)
		}
		if out := string(JSON(text)); strings.Contains(out, "canary") || !json.Valid([]byte(out)) {
			r.Fatalf("%s became %s", text, out)
		}
	})
}
