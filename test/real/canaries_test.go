package real

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/internal/eventually"
	"berth/op"
	"berth/test/bed"
)

// Users work at random with secrets that can be recognised: variables, tokens,
// one-time tokens, identities, secrets of auth methods; with commands in tasks,
// logins, wrong requests, rotations of keys, snapshots and bundles for debugging.
// Whatever the cluster then shows or keeps is searched for them: no log, event,
// snapshot, dump, bundle, answer, error, metric or line of the audit log has one, nor
// has a file of the server. What is there for the secret's owner is left out: the
// answer that shows it, and the files of the task that may have it. With
// BERTH_CANARIES set to a duration the work goes on for that time.
func TestCanaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	audit := filepath.Join(w.Dir, "audit.log")
	a := w.agent("one", both, fmt.Sprintf(`
log_level = "debug"
acl { enabled = true }
audit {
  enabled = true
  sink "file" {
    type               = "file"
    format             = "json"
    delivery_guarantee = "enforced"
    path               = %q
  }
}`, audit))
	x := &canaryWork{w: w, a: a, secrets: map[string]string{}, ends: map[[8]byte][]string{}, rnd: mathrand.New(mathrand.NewPCG(1, 2))}
	s := x.plant("what must be found")
	for form, text := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s + "…")), base64.StdEncoding.EncodeToString([]byte("{\"v\":\"" + s + "\"}"))} {
		if len(x.find([]byte("a log line with "+text+" in it"))) != 1 {
			t.Fatalf("form %d of a secret is not found in %s", form, text)
		}
	}
	x.begin()
	until, rounds := time.Time{}, 60
	if d, err := time.ParseDuration(os.Getenv("BERTH_CANARIES")); err == nil {
		until = time.Now().Add(d)
	}
	for n := 0; n < rounds || time.Now().Before(until); n++ {
		x.act(n)
	}
	x.sweep()
	if err := x.stop(); err != nil {
		t.Error(err)
	}
	x.look("the log of the agent", []byte(a.AllSaid()))
	x.file(audit)
	err := filepath.WalkDir(filepath.Join(a.dataDir, "server"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		x.file(path)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if len(x.secrets) < 20 || x.looked < 100 {
		t.Errorf("%d secrets were looked for in %d places", len(x.secrets), x.looked)
	}
	t.Logf("%d secrets were looked for in %d places", len(x.secrets), x.looked)
}

// canaryWork is a cluster and its users.
type canaryWork struct {
	w           *world
	a           *agent
	root        string
	secrets     map[string]string    // what each is, by what to look for
	ends        map[[8]byte][]string // what to look for, by its last bytes
	rnd         *mathrand.Rand
	tokens      [][2]string // accessors and secrets
	key         *ecdsa.PrivateKey
	alloc, eval string
	looked      int
	events      chan []byte
	hangUp      func()
}

// plant makes a secret that can be recognised.
func (x *canaryWork) plant(what string) string {
	s := fmt.Sprintf("canary-%d-%016x", len(x.secrets), x.rnd.Uint64())
	x.keep(what, s)
	return s
}

// keep has a secret looked for, as it is and in the usual encodings.
func (x *canaryWork) keep(what, secret string) {
	x.seek(secret, what)
	x.seek(hex.EncodeToString([]byte(secret)), what+" in hex")
	// In base64, whatever stands before it: the part that does not depend on that.
	for skip := range 3 {
		enc := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + secret))
		enc = enc[4 : len(enc)-4]
		x.seek(enc, what+" in base64")
	}
}

// seek has a text of at least eight bytes looked for.
func (x *canaryWork) seek(text, what string) {
	if _, known := x.secrets[text]; !known {
		end := [8]byte([]byte(text[len(text)-8:]))
		x.ends[end] = append(x.ends[end], text)
	}
	x.secrets[text] = what
}

// look searches bytes for all secrets, in one pass: an hour plants thousands.
func (x *canaryWork) look(where string, b []byte) {
	x.w.t.Helper()
	x.looked++
	for secret, at := range x.find(b) {
		x.w.t.Errorf("%s has %s: …%q…", where, x.secrets[secret], b[max(0, at-100):min(len(b), at+len(secret)+100)])
	}
}

// find returns the secrets in b, and where each is.
func (x *canaryWork) find(b []byte) map[string]int {
	found := map[string]int{}
	for end := 8; end <= len(b); end++ {
		for _, secret := range x.ends[[8]byte(b[end-8:end])] {
			if bytes.HasSuffix(b[:end], []byte(secret)) {
				found[secret] = end - len(secret)
			}
		}
	}
	return found
}

// file searches a file; if it is an archive, what is in it as well.
func (x *canaryWork) file(path string) {
	x.w.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		x.w.t.Error(err)
		return
	}
	name := strings.TrimPrefix(path, x.w.Dir)
	x.look(name, b)
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return
	}
	x.look(name+", unpacked", plain)
	for in := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := in.Next()
		if err != nil {
			return
		}
		part, err := io.ReadAll(in)
		if err == nil {
			x.look(name+" "+h.Name, part)
		}
	}
}

// as runs a command with a token. What it prints is searched.
func (x *canaryWork) as(token string, args ...string) bed.Result {
	x.w.t.Helper()
	r := x.w.command("berth", []string{"BERTH_ADDR=" + x.a.addr, "BERTH_TOKEN=" + token}, args...)
	x.look("berth "+args[0]+" "+args[1], []byte(r.Out+r.Err))
	return r
}

// ask makes a request, and returns its answer. It is searched unless it is meant to
// show a secret.
func (x *canaryWork) ask(token, method, path, body string, shows bool) (int, []byte) {
	x.w.t.Helper()
	ctx, cancel := context.WithTimeout(x.w.t.Context(), eventually.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, x.a.addr+path, strings.NewReader(body))
	if err != nil {
		x.w.t.Fatal(err)
	}
	req.Header.Set(op.HeaderToken, token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.w.t.Fatal(method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		x.w.t.Fatal(method, path, err)
	}
	if !shows {
		x.look(method+" "+path, b)
	}
	return resp.StatusCode, b
}

// begin makes the first token, a task with identities and secrets, an auth method,
// and a subscription to all events.
func (x *canaryWork) begin() {
	t := x.w.t
	t.Helper()
	var boot struct{ SecretID string }
	x.w.until("there is a first token", func() string {
		if _, err := x.a.try("PUT", "/v1/acl/bootstrap", "{}", &boot); err != nil {
			return err.Error()
		}
		return ""
	})
	x.root = boot.SecretID
	x.keep("the first token", x.root)
	x.w.until("the node is ready", func() string {
		_, b := x.ask(x.root, "GET", "/v1/nodes", "", false)
		if !strings.Contains(string(b), `"Status":"ready"`) {
			return bed.Got(string(b))
		}
		return ""
	})
	secret := x.plant("a variable of the task")
	x.ask(x.root, "PUT", "/v1/var/nomad/jobs/web", fmt.Sprintf(`{"Path":"nomad/jobs/web","Items":{"pw":%q}}`, secret), true) // the answer has what was written
	job := x.w.file("web.nomad", `
job "web" {
  group "g" {
    `+sh(`test "$PW" = "$(cat local/pw)" && echo ready; sleep 1000000`, `
		env { PW = "${secret.s.pw}" }
		secret "s" {
		  provider = "nomad"
		  path     = "nomad/jobs/web"
		}
		template {
		  data        = "{{ with nomadVar \"nomad/jobs/web\" }}{{ .pw }}{{ end }}"
		  destination = "local/pw"
		}
		identity {
		  env  = true
		  file = true
		}`)+`
  }
}`)
	if r := x.as(x.root, "job", "run", "-detach", job); r.Code != 0 {
		t.Fatal(r)
	}
	x.w.until("the task has its secrets", func() string {
		return missing(x.as(x.root, "alloc", "logs", "-job", "web").Out, "ready")
	})
	_, b := x.ask(x.root, "GET", "/v1/job/web/allocations", "", false)
	var allocs []struct{ ID, EvalID string }
	if err := json.Unmarshal(b, &allocs); err != nil || len(allocs) != 1 {
		t.Fatal(string(b), err)
	}
	x.alloc, x.eval = allocs[0].ID, allocs[0].EvalID
	jwt, err := os.ReadFile(filepath.Join(x.a.dataDir, "alloc", x.alloc, "main", "secrets", "nomad_token"))
	if err != nil {
		t.Fatal(err)
	}
	x.keep("the identity of the task", strings.Split(string(jwt), ".")[2])
	x.tokens = append(x.tokens, [2]string{"", string(jwt)})
	wrapping, err := filepath.Glob(filepath.Join(x.a.dataDir, "server", "keyring", "*"))
	if err != nil || len(wrapping) != 1 {
		t.Fatal(wrapping, err)
	}

	x.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&x.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"JWTValidationPubKeys": []string{string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}, "SigningAlgs": []string{"ES256"}, "BoundAudiences": []string{"berth"}, "ClaimMappings": map[string]string{"sub": "who"}})
	if err != nil {
		t.Fatal(err)
	}
	x.good("PUT", "/v1/acl/policy/reader", `{"Name":"reader","Rules":"namespace \"default\" { policy = \"read\" }"}`)
	x.good("PUT", "/v1/acl/auth-method", `{"Name":"ci","Type":"JWT","TokenLocality":"local","MaxTokenTTL":"1h","Config":`+string(config)+`}`)
	x.good("PUT", "/v1/acl/binding-rule", `{"AuthMethod":"ci","BindType":"policy","BindName":"reader"}`)
	client := x.plant("the secret of an OIDC client")
	x.good("PUT", "/v1/acl/auth-method", fmt.Sprintf(`{"Name":"sso","Type":"OIDC","TokenLocality":"local","MaxTokenTTL":"1h","Config":{"OIDCDiscoveryURL":"http://127.0.0.1:1","OIDCClientID":"id","OIDCClientSecret":%q,"BoundAudiences":["id"],"AllowedRedirectURIs":["http://localhost:4649/oidc/callback"]}}`, client))
	x.subscribe()
}

// good makes a request of the operator that must succeed.
func (x *canaryWork) good(method, path, body string) []byte {
	x.w.t.Helper()
	code, b := x.ask(x.root, method, path, body, false)
	if code/100 != 2 {
		x.w.t.Fatalf("%s %s: %d %s", method, path, code, b)
	}
	return b
}

// subscribe collects all events until hangUp is called.
func (x *canaryWork) subscribe() {
	ctx, cancel := context.WithCancel(x.w.t.Context())
	x.events, x.hangUp = make(chan []byte, 1), cancel
	req, err := http.NewRequestWithContext(ctx, "GET", x.a.addr+"/v1/event/stream?topic=*&namespace=*&index=1", nil)
	if err != nil {
		x.w.t.Fatal(err)
	}
	req.Header.Set(op.HeaderToken, x.root)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		x.w.t.Fatal(resp, err)
	}
	go func() {
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		x.events <- b
	}()
}

// jwt signs a token that the auth method ci trusts.
func (x *canaryWork) jwt() string {
	enc := base64.RawURLEncoding.EncodeToString
	head := enc([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + enc([]byte(fmt.Sprintf(`{"sub":"ci","aud":"berth","exp":%d}`, time.Now().Add(time.Hour).Unix())))
	return head + "." + signES256(x.w.t, x.key, head)
}

// act does one thing; what it is depends on chance, and the first ones are each
// thing once.
func (x *canaryWork) act(n int) {
	t := x.w.t
	t.Helper()
	acts := []func(){
		func() {
			path := fmt.Sprintf("v/%d", x.rnd.IntN(10))
			x.ask(x.root, "PUT", "/v1/var/"+path, fmt.Sprintf(`{"Path":%q,"Items":{"k":%q,"other":%q}}`, path, x.plant("a variable"), x.plant("another item")), true)
			x.good("GET", "/v1/vars?prefix=v/", "")
			// A conflict shows the variable to those who may read it, and only to them.
			x.ask(x.someone(), "PUT", "/v1/var/"+path+"?cas=7", fmt.Sprintf(`{"Path":%q,"Items":{"k":%q}}`, path, x.plant("a variable that was refused")), true)
		},
		func() { x.ask(x.root, "DELETE", fmt.Sprintf("/v1/var/v/%d", x.rnd.IntN(10)), "", true) },
		func() {
			_, b := x.ask(x.root, "PUT", "/v1/acl/token", `{"Name":"someone","Type":"client","Policies":["reader"]}`, true)
			x.token("a token", b)
		},
		func() {
			jwt := x.jwt()
			x.keep("a JWT of a login", strings.Split(jwt, ".")[2])
			code, b := x.ask("", "PUT", "/v1/acl/login", fmt.Sprintf(`{"AuthMethodName":"ci","LoginToken":%q}`, jwt), true)
			if code != http.StatusOK {
				t.Errorf("login: %d %s", code, b)
				return
			}
			x.token("a token of a login", b)
		},
		func() {
			x.keep("a JWT that was refused", base64.RawURLEncoding.EncodeToString([]byte(x.plant("a claim"))))
			x.ask("", "PUT", "/v1/acl/login", fmt.Sprintf(`{"AuthMethodName":"ci","LoginToken":"%s.%s.x"}`, base64.RawURLEncoding.EncodeToString([]byte(x.plant("a header"))), x.plant("a token of a login that was refused")), false)
		},
		func() {
			var out struct {
				OneTimeToken struct{ OneTimeSecretID string }
			}
			_, b := x.ask(x.someone(), "PUT", "/v1/acl/token/onetime", "", true)
			if json.Unmarshal(b, &out) == nil && out.OneTimeToken.OneTimeSecretID != "" {
				x.keep("a one-time token", out.OneTimeToken.OneTimeSecretID)
				x.ask("", "PUT", "/v1/acl/token/onetime/exchange", fmt.Sprintf(`{"OneTimeSecretID":%q}`, out.OneTimeToken.OneTimeSecretID), true)
				x.ask("", "PUT", "/v1/acl/token/onetime/exchange", fmt.Sprintf(`{"OneTimeSecretID":%q}`, out.OneTimeToken.OneTimeSecretID), false)
			}
		},
		func() {
			secret := x.plant("the output of a command")
			r := x.w.command("berth", []string{"BERTH_ADDR=" + x.a.addr, "BERTH_TOKEN=" + x.root}, "alloc", "exec", "-task", "main", x.alloc, "/bin/echo", secret)
			if !strings.Contains(r.Out, secret) {
				t.Errorf("alloc exec: %v", r)
			}
		},
		func() { x.rotate() },
		func() { // what is wrong with a request is said without its secrets
			secret := x.plant("a wrong token")
			for _, path := range []string{"/v1/jobs", "/v1/nothing", "/v1/var/v/1", "/v1/acl/token/self"} {
				x.ask(secret, "GET", path, "", false)
			}
			x.ask(x.root, "PUT", "/v1/var/v/1", fmt.Sprintf(`{"Path":"v/1","Items":{"k":{"x":%q}}}`, x.plant("a value of the wrong type")), false)
			x.ask(x.root, "PUT", "/v1/var/v/2", fmt.Sprintf(`{"Path":"v/1","Items":{"k":%q}}`, x.plant("a value at two paths")), false)
		},
		func() { x.snapshot() },
		func() {
			if len(x.tokens) > 3 {
				i := 1 + x.rnd.IntN(len(x.tokens)-1)
				x.good("DELETE", "/v1/acl/token/"+x.tokens[i][0], "")
				x.tokens = append(x.tokens[:i], x.tokens[i+1:]...)
			}
		},
		func() { x.bundle() },
		func() { // callers ask for everything that they may see
			for _, path := range []string{"/v1/jobs", "/v1/job/web", "/v1/allocation/" + x.alloc, "/v1/vars", "/v1/acl/whoami", "/v1/services", "/v1/metrics"} {
				x.ask(x.someone(), "GET", path, "", false)
			}
		},
	}
	if n < len(acts) {
		acts[n]()
		return
	}
	i := x.rnd.IntN(len(acts))
	if i == 11 && x.rnd.IntN(20) > 0 { // a bundle takes seconds
		i = 0
	}
	acts[i]()
}

// token keeps a token that an answer shows.
func (x *canaryWork) token(what string, b []byte) {
	x.w.t.Helper()
	var tok struct{ AccessorID, SecretID string }
	if err := json.Unmarshal(b, &tok); err != nil || tok.SecretID == "" {
		x.w.t.Fatalf("%s: %s", what, b)
	}
	x.keep(what, tok.SecretID)
	x.tokens = append(x.tokens, [2]string{tok.AccessorID, tok.SecretID})
}

// someone is the secret of a caller.
func (x *canaryWork) someone() string { return x.tokens[x.rnd.IntN(len(x.tokens))][1] }

// rotate makes a new root key, and removes old ones long before there are too many.
func (x *canaryWork) rotate() {
	var keys []struct{ KeyID, State string }
	if err := json.Unmarshal(x.good("GET", "/v1/operator/keyring/keys", ""), &keys); err != nil {
		x.w.t.Fatal(err)
	}
	if len(keys) > 100 {
		for _, k := range keys {
			if k.State == "inactive" {
				x.ask(x.root, "DELETE", "/v1/operator/keyring/key/"+k.KeyID, "", false)
			}
		}
	}
	if len(keys) < 900 { // those that sign identities stay for as long as these
		x.good("PUT", "/v1/operator/keyring/rotate?full=true", "{}")
	}
}

// snapshot searches a snapshot, the state in it, and the snapshot without secrets.
func (x *canaryWork) snapshot() {
	x.w.t.Helper()
	file := filepath.Join(x.w.Dir, fmt.Sprint("snap", x.looked))
	if r := x.as(x.root, "operator", "snapshot", "save", file); r.Code != 0 {
		x.w.t.Fatal(r)
	}
	x.file(file)
	if r := x.as(x.root, "operator", "snapshot", "state", file); r.Code != 0 || len(r.Out) < 1000 {
		x.w.t.Fatal(r)
	}
	x.as(x.root, "operator", "snapshot", "inspect", file)
}

// bundle searches a bundle for debugging.
func (x *canaryWork) bundle() {
	x.w.t.Helper()
	dir := filepath.Join(x.w.Dir, fmt.Sprint("bundle", x.looked))
	if err := os.Mkdir(dir, 0o755); err != nil {
		x.w.t.Fatal(err)
	}
	if r := x.as(x.root, "operator", "debug", "-duration", "1s", "-interval", "500ms", "-output", dir); r.Code != 0 {
		x.w.t.Fatal(r)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files++
			x.file(path)
		}
		return err
	})
	if err != nil || files == 0 {
		x.w.t.Errorf("the bundle has %d files, %v", files, err)
	}
}

// sweep searches the answer to every read that ends, and all events.
func (x *canaryWork) sweep() {
	t := x.w.t
	t.Helper()
	_, b := x.ask(x.root, "GET", "/v1/nodes", "", false)
	var nodes []struct{ ID string }
	if err := json.Unmarshal(b, &nodes); err != nil || len(nodes) != 1 {
		t.Fatal(string(b), err)
	}
	names := strings.NewReplacer("{JobID}", "web", "{AllocID}", x.alloc, "{EvalID}", x.eval, "{NodeID}", nodes[0].ID, "{AccessorID}", x.tokens[len(x.tokens)-1][0],
		"{PolicyName}", "reader", "{MethodName}", "sso", "{NamespaceName}", "default")
	for _, i := range op.All() {
		path := names.Replace(i.Path)
		if path == "" || !i.IsRead() || i.Bytes || strings.Contains(path, "{") || strings.Contains(path, "/fs/") {
			continue
		}
		switch i.Name {
		case op.StreamEvents.Name, op.ReadLogs.Name, op.Monitor.Name, op.Exec.Name:
			continue
		}
		for _, token := range []string{x.root, x.tokens[0][1], "", x.tokens[len(x.tokens)-1][1]} {
			for _, ns := range []string{"default", "*"} {
				x.ask(token, i.Verb(), path+"?namespace="+ns+"&resources=true&task_states=true&verbose=true", "", false)
			}
		}
	}
	x.ask("", "GET", "/v1/metrics?format=prometheus", "", false)
	x.snapshot()
	x.hangUp()
	select {
	case all := <-x.events:
		if len(all) < 1000 {
			t.Errorf("there were %d bytes of events", len(all))
		}
		x.look("the event stream", all)
	case <-time.After(eventually.Limit):
		t.Error("the event stream does not end")
	}
}

// stop ends the job and the agent.
func (x *canaryWork) stop() error {
	if r := x.as(x.root, "job", "stop", "-purge", "web"); r.Code != 0 {
		return fmt.Errorf("%v", r)
	}
	x.a.Kill()
	return nil
}

// signES256 signs as JWTs are signed.
func signES256(t *testing.T, key *ecdsa.PrivateKey, text string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	r.FillBytes(b[:32])
	s.FillBytes(b[32:])
	return base64.RawURLEncoding.EncodeToString(b)
}
