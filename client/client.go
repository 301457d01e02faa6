// Package client calls the operations of package op on an agent over HTTP. It
// returns exactly what the agent answered: it follows no redirect and keeps the
// kind that the server gave an error. It sends a request again only if the agent
// is too busy for it (429 with Retry-After) and thus has done nothing.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/op"
)

// DefaultAddress is the address of the agent if the Config has none.
const DefaultAddress = "http://127.0.0.1:4646"

// The default limits of a Client.
const (
	defaultDial = 5 * time.Second  // to connect, and again for the TLS handshake
	idleTime    = 30 * time.Second // after which an unused connection is closed
	maxHeader   = 256 << 10        // bytes of the headers of an answer
)

// Config is the agent to call and the caller's credentials. The zero value
// calls the agent on this machine without a token.
type Config struct {
	Address   string // http://host:port, https://host:port or unix:///path; "" is DefaultAddress
	Token     string // "" for a call without one
	BasicAuth string // user:password, for a proxy in front of the agent

	// Used for calls whose input has none; "" leaves the choice to the
	// agent.
	Region    string
	Namespace string

	DialTimeout time.Duration // 0: 5 s

	TLS TLS
}

// Client calls one agent. It is safe for concurrent use.
type Client struct {
	config Config
	base   string // scheme, host and path prefix, without a slash at the end
	http   *http.Client
}

// New returns a client for the agent that c names. It does not connect yet. An
// address or a TLS setting that cannot be used is an error.
func New(c Config) (*Client, error) {
	if c.Address == "" {
		c.Address = DefaultAddress
	}
	base, socket, err := parseAddress(c.Address)
	if err != nil {
		return nil, err
	}
	if err := c.TLS.check(base); err != nil {
		return nil, err
	}
	secure, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	if c.DialTimeout <= 0 {
		c.DialTimeout = defaultDial
	}
	dialer := &net.Dialer{Timeout: c.DialTimeout}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: c.DialTimeout, TLSClientConfig: secure,
		IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
	}
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return &Client{config: c, base: base, http: &http.Client{
		Transport: t,
		// Following a redirect would send the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// parseAddress splits an address into the prefix of all requests and, for
// unix://, the socket to dial.
func parseAddress(address string) (base, socket string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", "", berth.Errorf(berth.Invalid, "address %q: %w", address, err)
	}
	switch {
	case u.Scheme == "unix" && u.Path != "":
		return "http://localhost", u.Path, nil
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return "", "", berth.Errorf(berth.Invalid, "address %q: only scheme, host, port and path are allowed", u.Redacted())
		}
		return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), "", nil
	}
	return "", "", berth.Errorf(berth.Invalid, "address %q is not of the form http://host:port, https://host:port or unix:///path", address)
}

// Address returns the address of the agent, as configured.
func (c *Client) Address() string { return c.config.Address }

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Limits of sending a request again.
const (
	maxSends  = 6 // the first one included
	maxResend = 10 * time.Second
)

// send sends a request, and sends it again as long as the agent is too busy for
// it and says when to come back. An agent that does so has done nothing.
func (c *Client) send(r *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		resp, err := c.http.Do(r)
		if err != nil || n == maxSends || resp.StatusCode != http.StatusTooManyRequests || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil || seconds < 0 {
			return resp, nil
		}
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return resp, nil
			}
		}
		_, _ = io.CopyN(io.Discard, resp.Body, maxErrorText)
		resp.Body.Close()
		if err := rest.For(r.Context(), min(time.Duration(seconds)*time.Second, maxResend)); err != nil {
			return nil, err
		}
		r = again
	}
}

// do sends a request. A status other than success becomes an error. On success
// the caller must close the body.
func (c *Client) do(r *http.Request, info *op.Info) (*http.Response, error) {
	resp, err := c.send(r)
	if err != nil {
		return nil, c.unreachable(r.Context(), err)
	}
	if (resp.StatusCode < 200 || resp.StatusCode > 299) && (resp.StatusCode != info.Also || mediaType(resp) != "application/json") {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

// unreachable returns the error for a request without an answer. If the caller
// cancelled it, that is the cause of ctx, not an Unreachable.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the outer error repeats the whole request
	}
	why := "cannot be reached"
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		why = "does not answer"
	case errors.Is(err, http.ErrSchemeMismatch):
		why = "speaks http, not https"
	default:
		why = cmp.Or(distrust(err), why)
	}
	return &Unreachable{c.config.Address, berth.Errorf(berth.Unavailable, "the agent at %s %s: %w", c.config.Address, why, err)}
}

// Unreachable is the error of a call that no agent answered. Its kind is
// Unavailable.
type Unreachable struct {
	Address string // of the agent
	Err     error
}

// Error returns the text of the cause.
func (e *Unreachable) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// kinds maps HTTP statuses to error kinds, for answers of other programs, which
// have no kind header.
var kinds = map[int]berth.Kind{
	http.StatusBadRequest: berth.Invalid, http.StatusMethodNotAllowed: berth.Invalid, http.StatusForbidden: berth.Denied,
	http.StatusNotFound: berth.NotFound, http.StatusConflict: berth.Conflict, http.StatusRequestEntityTooLarge: berth.TooLarge,
	http.StatusTooManyRequests: berth.Limited, http.StatusServiceUnavailable: berth.Unavailable,
}

// maxErrorText is how many bytes of an error's text are read.
const maxErrorText = 64 << 10

// refused returns the error for an answer whose status is not success.
func (c *Client) refused(resp *http.Response) error {
	text := errorText(resp)
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return berth.Errorf(berth.Unavailable, "%s answers with a redirect to %s, which is not followed; is it the address of an agent?",
			c.config.Address, resp.Header.Get("Location"))
	}
	if text == "" {
		text = fmt.Sprintf("%s answers %s", c.config.Address, resp.Status)
	}
	return op.ErrorOf(resp.Header, errors.New(text), kinds[resp.StatusCode])
}
