// Package client calls the operations of package op on an agent, from Go, over
// HTTP. It keeps one promise beside that: what a caller gets is what the agent
// said. Nothing is retried, no redirect is followed, and an error carries the
// kind that the server gave it.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/op"
)

// DefaultAddress is where an agent answers if nobody says otherwise.
const DefaultAddress = "http://127.0.0.1:4646"

// Limits of a Client unless its Config says otherwise.
const (
	defaultDial = 5 * time.Second
	idleTime    = 30 * time.Second
	maxHeader   = 256 << 10
)

// Config says which agent to call, and as whom. The zero value calls the agent
// of this machine.
type Config struct {
	Address   string // http://host:port, https://host:port or unix:///path; "" is DefaultAddress
	Token     string
	BasicAuth string // user:password, for a proxy in front of the agent

	// Of calls whose input names none; "" leaves it to the agent.
	Region    string
	Namespace string

	DialTimeout time.Duration // 0: 5 s

	TLS TLS
}

// Client calls one agent. It may be used by many goroutines at once.
type Client struct {
	config Config
	base   string // scheme and host that paths are put behind
	http   *http.Client
}

// New returns a client of the agent that c names. It calls nobody yet.
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
		// A redirect would carry the token to the host that it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// parseAddress splits an address into what requests begin with, and the socket
// to dial if it is one.
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

// Address is the address that the client calls.
func (c *Client) Address() string { return c.config.Address }

// Close drops the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do sends a request. An answer that is not a success becomes an error.
func (c *Client) do(r *http.Request, info *op.Info) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachable(r.Context(), err)
	}
	if (resp.StatusCode < 200 || resp.StatusCode > 299) && (resp.StatusCode != info.Also || mediaType(resp) != "application/json") {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

// unreachable says why nobody answered. That the caller gave up is not the
// agent's fault and keeps its own error.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // it repeats the whole request
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

// Unreachable is the error of a call to which no agent answered. Its kind is
// Unavailable.
type Unreachable struct {
	Address string
	Err     error
}

// Error returns the text of the cause.
func (e *Unreachable) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unreachable) Unwrap() error { return e.Err }

// kinds turns the status of an answer into the kind of its error, for answers of
// other programs, which do not name it.
var kinds = map[int]berth.Kind{
	http.StatusBadRequest: berth.Invalid, http.StatusMethodNotAllowed: berth.Invalid, http.StatusForbidden: berth.Denied,
	http.StatusNotFound: berth.NotFound, http.StatusConflict: berth.Conflict, http.StatusRequestEntityTooLarge: berth.TooLarge,
	http.StatusTooManyRequests: berth.Limited, http.StatusServiceUnavailable: berth.Unavailable,
}

// maxErrorText is how much of an error's text is read.
const maxErrorText = 64 << 10

// refused makes an error of an answer that is none of success.
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
