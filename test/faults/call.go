package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/eventually"
	"berth/op"
)

// caller is one user of the HTTP API. After a request it knows one of three
// things: it was done, it was not done, or neither is certain.
type caller struct{ http *http.Client }

// newCaller returns a client with its own connections, so that one caller's
// broken connection does not delay another.
func newCaller() *caller {
	d := &net.Dialer{Timeout: 2 * time.Second}
	return &caller{&http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}}}
}

// answer is the answer to a request.
type answer struct {
	code    int
	index   uint64
	contact time.Duration
	known   bool   // whether the server knew of a leader
	conn    string // the connection that the request used: its own address
	body    []byte
}

// errUndone is wrapped by the error of a request that certainly had no effect.
var errUndone = errors.New("nothing was done")

// ask calls the HTTP API at an address. An answer that is not 2xx is an error.
func (c *caller) ask(ctx context.Context, method, url string, in, out any) (a answer, err error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return a, err
		}
		body = bytes.NewReader(text)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { a.conn = c.Conn.LocalAddr().String() }})
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return a, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		// Without a connection the call cannot have had an effect.
		var opErr *net.OpError
		if errors.As(err, &opErr) && opErr.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%w: %w", errUndone, err)
		}
		return a, err
	}
	defer resp.Body.Close()
	a.code = resp.StatusCode
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	h := resp.Header
	a.index, _ = strconv.ParseUint(h.Get(op.HeaderIndex), 10, 64)
	ms, _ := strconv.ParseInt(h.Get(op.HeaderLastContact), 10, 64)
	a.contact, a.known = time.Duration(ms)*time.Millisecond, h.Get(op.HeaderKnownLeader) == "true"
	// A 4xx is a refusal: nothing was done. After any other error it is not
	// known.
	switch {
	case a.code/100 == 4:
		return a, fmt.Errorf("%w: %d: %s", errUndone, a.code, strings.TrimSpace(string(a.body)))
	case a.code/100 != 2:
		return a, fmt.Errorf("%d: %s", a.code, strings.TrimSpace(string(a.body)))
	case out == nil:
		return a, nil
	}
	return a, eventually.Decode(a.body, out)
}

// get reads from one server.
func (c *cluster) get(ctx context.Context, m *machine, path string, out any) error {
	_, err := c.call(ctx, m, "GET", path, nil, out)
	return err
}

// steward is the caller of the runner itself. Its calls are not in the history.
var steward = newCaller()

// call calls one machine for the runner itself.
func (c *cluster) call(ctx context.Context, m *machine, method, path string, in, out any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	a, err := steward.ask(ctx, method, m.http()+path, in, out)
	if err != nil {
		err = fmt.Errorf("%s %s at %s: %w", method, path, m.name, err)
	}
	return a, err
}
