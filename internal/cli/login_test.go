package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/freeport"
	"berth/internal/login/logintest"
)

// watchedOutput collects what a command prints, and tells when an address is in it.
type watchedOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
	url  chan string
}

var addressLine = regexp.MustCompile(`(?m)^(https?://\S+)$`)

// Write implements io.Writer.
func (w *watchedOutput) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(b)
	if m := addressLine.FindString(w.text.String()); m != "" {
		select {
		case w.url <- m:
		default:
		}
	}
	return len(b), nil
}

// The command logs in at a real provider, as a person does with a browser; the
// agent is one that only knows who logs in.
func TestLoginWithABrowser(t *testing.T) {
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprint("127.0.0.1:", port)
	redirect := "http://" + addr + callbackPath
	idp := logintest.Start(t, redirect)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/v1/acl/auth-methods":
			io.WriteString(w, `[{"Name":"ci","Type":"JWT","Default":true},{"Name":"sso","Type":"OIDC","Default":true}]`)
		case "/v1/acl/oidc/auth-url":
			if !strings.Contains(string(body), redirect) || !strings.Contains(string(body), "ClientNonce") {
				t.Errorf("the request is %s", body)
			}
			u := idp.URL + "/authorize?" + url.Values{
				"client_id": {logintest.ClientID}, "redirect_uri": {redirect}, "response_type": {"code"}, "scope": {"openid"}, "state": {"the state"},
			}.Encode()
			fmt.Fprintf(w, `{"AuthURL":%q}`, u)
		case "/v1/acl/oidc/complete-auth":
			if !strings.Contains(string(body), `"State":"the state"`) || strings.Contains(string(body), `"Code":""`) {
				t.Errorf("the request is %s", body)
			}
			io.WriteString(w, `{"AccessorID":"an accessor","SecretID":"a secret","Type":"client","Policies":["web"]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer agent.Close()
	out, errs := &bytes.Buffer{}, &watchedOutput{url: make(chan string, 1)}
	p := &Program{Name: "berth", Args: []string{"login", "-oidc-callback-addr", addr, "-address", agent.URL}, In: strings.NewReader(""), Out: out, Err: errs, Now: time.Now}
	done := make(chan int, 1)
	go func() { done <- p.Run(context.Background()) }()
	var authURL string
	select {
	case authURL = <-errs.url:
	case code := <-done:
		t.Fatalf("exit code %d: %s", code, errs.text.String())
	}
	visit := func(u string) string {
		resp, err := http.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		defer http.DefaultClient.CloseIdleConnections()
		page, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(page))
	}
	// Another page cannot end the login.
	if got := visit(redirect + "?code=evil&state=guessed"); !strings.HasPrefix(got, "400 ") {
		t.Error(got)
	}
	back, err := idp.Login(authURL, "ann", logintest.Password)
	if err != nil {
		t.Fatal(err)
	}
	if got := visit(back.String()); !strings.HasPrefix(got, "200 You can close this page") {
		t.Error(got)
	}
	if code := <-done; code != 0 || !strings.Contains(out.String(), "Successfully logged in") || !strings.Contains(out.String(), "a secret") {
		t.Errorf("exit code %d\n%s%s", code, out, errs.text.String())
	}
}
