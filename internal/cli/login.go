package cli

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// loginCommand logs in.
func loginCommand() *command {
	return &command{
		name: "login", synopsis: "Log in and get a token",
		example: "login -method sso",
		help: `Logs in with an auth method and prints a token. With one of type OIDC it prints an address to open in a browser, and waits until the browser
			comes back to -oidc-callback-addr; http://ADDRESS/oidc/callback must be one of the AllowedRedirectURIs of the auth method. With one of
			type JWT it shows -login-token. Use the token with BERTH_TOKEN.`,
		setup: func(f *flags) action {
			data := f.data()
			method := f.String("method", "The `name` of the auth method. Without it, the default one of its type.")
			kind := f.String("type", "The `type` of the auth method: OIDC or JWT. It chooses among the defaults.")
			token := f.String("login-token", "The JWT to log in with, a `token` for auth methods of type JWT.")
			addr := f.FlagSet.String("oidc-callback-addr", "localhost:4649", "The `address`, on this machine, that the browser comes back to.")
			return answer(data, func(ctx context.Context, c *call) (out op.ACLToken, err error) {
				want := strings.ToUpper(*kind)
				if want == "" && *token != "" {
					want = berth.AuthJWT
				}
				if want != "" && want != berth.AuthOIDC && want != berth.AuthJWT {
					return out, c.usagef("flag -type must be OIDC or JWT, got %q", *kind)
				}
				m, err := chooseMethod(ctx, c, *method, want)
				switch {
				case err != nil:
					return out, err
				case m.Type == berth.AuthJWT && *token == "":
					return out, c.usagef("auth method %q is of type JWT: -login-token is needed", m.Name)
				case m.Type == berth.AuthJWT:
					out, _, err = client.Call(ctx, c.client, op.Login, op.LoginRequest{AuthMethodName: m.Name, LoginToken: *token})
					return out, err
				case *token != "":
					return out, c.usagef("-login-token is for auth methods of type JWT; %q is of type %s", m.Name, m.Type)
				}
				return loginOIDC(ctx, c, m.Name, *addr)
			}, func(c *call, p *page, t op.ACLToken) {
				p.linef("Successfully logged in.")
				p.linef("")
				showToken(c, p, t)
			})
		},
	}
}

// chooseMethod returns the auth method with a name, or the default one. kind is a
// type, or "": OIDC comes first.
func chooseMethod(ctx context.Context, c *call, name, kind string) (op.AuthMethodStub, error) {
	list, _, err := client.Call(ctx, c.client, op.ListAuthMethods, op.Query{})
	if err != nil {
		return op.AuthMethodStub{}, err
	}
	var found *op.AuthMethodStub
	for i, m := range list {
		fits := kind == "" || m.Type == kind
		switch {
		case name != "" && m.Name == name && !fits:
			return m, berth.Errorf(berth.Invalid, "auth method %q is of type %s, not %s", name, m.Type, kind)
		case name != "" && m.Name == name, name == "" && m.Default && fits && (found == nil || m.Type == berth.AuthOIDC):
			found = &list[i]
		}
	}
	switch {
	case found != nil:
		return *found, nil
	case name != "":
		return op.AuthMethodStub{}, berth.Errorf(berth.NotFound, "there is no auth method %q; see \"%s acl auth-method list\"", name, c.Name)
	}
	return op.AuthMethodStub{}, berth.Errorf(berth.Invalid, "there is no default auth method: name one with -method; see \"%s acl auth-method list\"", c.Name)
}

// loginWait is how long the command waits for the browser.
const loginWait = 10 * time.Minute

// callbackPath is where the browser comes back to.
const callbackPath = "/oidc/callback"

// loginOIDC logs in with a browser.
func loginOIDC(ctx context.Context, c *call, method, addr string) (out op.ACLToken, err error) {
	ctx, cancel := context.WithTimeout(ctx, loginWait)
	defer cancel()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return out, berth.Errorf(berth.Unavailable, "-oidc-callback-addr: %w", err)
	}
	nonce, redirect := rand.Text(), "http://"+addr+callbackPath
	begun, _, err := client.Call(ctx, c.client, op.BeginOIDC, op.OIDCAuthURLRequest{AuthMethodName: method, RedirectURI: redirect, ClientNonce: nonce})
	if err != nil {
		ln.Close()
		return out, err
	}
	state, err := stateIn(begun.AuthURL)
	if err != nil {
		ln.Close()
		return out, err
	}
	fmt.Fprintf(c.Err, "Open this address in a browser to log in:\n\n%s\n\n", clean(begun.AuthURL))
	if c.Terminal {
		openBrowser(ctx, begun.AuthURL)
	}
	back, err := comesBack(ctx, ln, state)
	if err != nil {
		return out, err
	}
	if e := back.Get("error"); e != "" {
		return out, berth.Errorf(berth.Denied, "the provider refuses the login: %s %s", clean(berth.Clip(e, 64)), clean(berth.Clip(back.Get("error_description"), 256)))
	}
	out, _, err = client.Call(ctx, c.client, op.CompleteOIDC, op.OIDCComplete{
		AuthMethodName: method, ClientNonce: nonce, State: back.Get("state"), Code: back.Get("code"), Iss: back.Get("iss"), RedirectURI: redirect,
	})
	return out, err
}

// stateIn returns the state parameter of the address of a provider.
func stateIn(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Query().Get("state") == "" {
		return "", fmt.Errorf("the agent answers with %q, which is not an address to log in at", berth.Clip(address, 128))
	}
	return u.Query().Get("state"), nil
}

// openBrowser opens an address in a browser, if there is one. The address was
// printed, so it does not matter if that fails.
func openBrowser(ctx context.Context, address string) {
	cmd := exec.CommandContext(ctx, "xdg-open", address)
	if cmd.Start() == nil {
		go cmd.Wait()
	}
}

// comesBack serves the page that the browser comes back to, until one brings the
// state of this login. It closes the listener.
func comesBack(ctx context.Context, ln net.Listener, state string) (url.Values, error) {
	got := make(chan url.Values, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintln(w, "This is not the login that the command waits for.")
			return
		}
		fmt.Fprintln(w, "You can close this page and go back to the terminal.")
		select {
		case got <- q:
		default: // the page was loaded again
		}
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(end) != nil { // lets the page be sent
			srv.Close()
		}
	}()
	select {
	case q := <-got:
		return q, nil
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return nil, berth.Errorf(berth.Unavailable, "nobody logged in: %w", context.Cause(ctx))
	}
}
