package api_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/state"
	"berth/op"
)

var updateMatrix = flag.Bool("update-matrix", false, "write the matrix of capabilities again")

// ruleOf writes the rules that grant one capability: in the namespace own, or for
// everything that has no namespace.
func ruleOf(c acl.Capability) string {
	area, name, ok := strings.Cut(string(c), ":")
	switch {
	case !ok:
		return fmt.Sprintf("namespace \"own\" { capabilities = [%q] }", c)
	case area == "variables":
		return fmt.Sprintf("namespace \"own\" { variables { path \"*\" { capabilities = [%q] } } }", name)
	case area == "node_pool", area == "host_volume":
		return fmt.Sprintf("%s \"*\" { capabilities = [%q] }", area, name)
	case area == "operator" && name != "read" && name != "write":
		return fmt.Sprintf("operator { capabilities = [%q] }", name)
	}
	return fmt.Sprintf("%s { policy = %q }", area, name)
}

// field matches a field in the path of an operation.
var field = regexp.MustCompile(`\{[A-Za-z]+\}`)

// requestOf returns a request for an operation on what does not exist.
func requestOf(i *op.Info, namespace, secret string) *http.Request {
	path := field.ReplaceAllString(i.Path, "6c2a1b34-0000-4000-8000-000000000000")
	body := "{}"
	if i.Space == acl.JobSpace {
		body = fmt.Sprintf(`{"Job":{"ID":"6c2a1b34-0000-4000-8000-000000000000","Namespace":%q}}`, namespace)
	}
	method := i.Verb()
	if i.Bytes && i.IsRead() {
		method = http.MethodHead
	}
	r := httptest.NewRequest(method, path+"?namespace="+namespace+"&capability=node:read&topic=Job", strings.NewReader(body))
	r.Header.Set(op.HeaderToken, secret)
	return r
}

// Each operation over HTTP, with tokens of one capability each, in its own
// namespace, in another, and in all. The file lists who is not refused for lack of
// rights.
func TestMatrixOfCapabilities(t *testing.T) {
	caps := append(acl.All(), acl.Management)
	cmds := []state.Command{&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "own"}, {Name: "other"}}}}
	for i, c := range caps {
		tok := &berth.ACLToken{AccessorID: fmt.Sprint("t", i), SecretHash: sha256.Sum256([]byte(c)), Type: berth.TokenManagement}
		if c != acl.Management {
			name := strings.ReplaceAll(string(c), ":", "-")
			cmds = append(cmds, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: name, Rules: ruleOf(c)}}})
			if _, err := acl.Parse(ruleOf(c)); err != nil {
				t.Fatal(err)
			}
			tok.Type, tok.Policies = berth.TokenClient, []string{name}
		}
		cmds = append(cmds, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{tok}})
	}
	s, _ := serve(t, func(c *api.Config) { c.ACL = true }, cmds...)
	var out strings.Builder
	for _, i := range op.All() {
		if i.Path == "" || !s.Served()[i.Name] {
			continue
		}
		fmt.Fprintf(&out, "%s\n", i.Name)
		for _, space := range []string{"own", "other", "*"} {
			var may []string
			for _, secret := range append([]acl.Capability{"", "not-a-token"}, caps...) {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, requestOf(i, space, string(secret)))
				if w.Code == http.StatusForbidden {
					continue
				}
				switch secret {
				case "":
					secret = "(no token)"
				case "not-a-token":
					secret = "(wrong token)"
				}
				may = append(may, string(secret))
			}
			who := strings.Join(may, " ")
			if len(may) == len(caps)+2 {
				who = "anybody"
			} else if len(may) >= len(caps) {
				who = "any token"
				if may[0] == "(no token)" {
					who += " or none"
				}
			}
			fmt.Fprintf(&out, "  %-6s%s\n", space, who)
		}
	}
	const path = "testdata/matrix.txt"
	if *updateMatrix {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the matrix is another; run with -args -update-matrix and read the difference:\n%s", out.String())
	}
}

// A token that has expired is refused like one that never was.
func TestExpiredTokensAreRefused(t *testing.T) {
	token := func(name string, expires int64) *berth.ACLToken {
		return &berth.ACLToken{AccessorID: name, SecretHash: sha256.Sum256([]byte(name)), Type: berth.TokenManagement, CreateTime: 1, ExpirationTime: expires}
	}
	s, _ := serve(t, func(c *api.Config) { c.ACL = true },
		&state.UpsertACLTokens{Tokens: []*berth.ACLToken{token("old", 2), token("new", time.Now().Add(time.Hour).UnixNano())}})
	ask := func(secret string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/v1/nodes", nil)
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	old, none := ask("old"), ask("never was")
	if old.Code != http.StatusForbidden || old.Body.String() != none.Body.String() {
		t.Errorf("expired: %d %s; unknown: %d %s", old.Code, old.Body, none.Code, none.Body)
	}
	if w := ask("new"); w.Code != http.StatusOK {
		t.Errorf("a token that is valid: %d %s", w.Code, w.Body)
	}
}
