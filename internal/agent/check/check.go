// Package check looks again and again whether a service works: it asks over
// HTTP or gRPC, runs a script in its task, or only opens a connection. What an outcome makes of what is known is
// decided by a function, [State.Next]; [Run] asks and waits. Nothing that a
// service answers takes more than a bounded part of it into memory, and none of
// what a check opened is left when it ends.
package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"berth"
)

// Spec is one check, its names replaced and its address known.
type Spec struct {
	Type    string // as berth.CheckHTTP
	Address string // host:port; not for scripts

	Protocol      string // http or https
	Path          string // of the request, with its query
	Method        string // "" is GET
	Header        map[string][]string
	Body          string
	TLSServerName string // "" is the host in Address
	TLSSkipVerify bool   // any certificate will do

	GRPCService string // "" is the server as a whole
	GRPCUseTLS  bool

	Command      []string // of a script
	PassWarnings bool     // a script that warns passes

	Interval time.Duration // from the end of one look to the next
	Timeout  time.Duration // of one look

	SuccessesWanted int // in a row until it passes; 0 is 1
	FailuresWanted  int // in a row until it fails; 0 is 1

	RestartLimit int           // failures in a row after which the task is restarted; 0 is never
	RestartGrace time.Duration // from the begin, in which failures do not count for that
	// Warnings do not count for that.
	RestartIgnoresWarnings bool
}

// Equal reports whether two checks are the same.
func (s *Spec) Equal(o *Spec) bool { return reflect.DeepEqual(s, o) }

// Outcome is what one look found.
type Outcome struct {
	OK      bool
	Warning bool   // a script says that the service works but is not well
	Output  string // a bounded part of what was answered, or what went wrong
	Code    int    // of HTTP
}

const (
	maxOutput    = 1 << 10 // bytes; they are shown to people
	maxRedirects = 5
)

// Look asks once, within the check's timeout. run is for scripts alone.
func (s *Spec) Look(ctx context.Context, run Executor) Outcome {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	switch s.Type {
	case berth.CheckGRPC:
		return s.askGRPC(ctx)
	case berth.CheckScript:
		return s.runScript(ctx, run)
	case berth.CheckTCP:
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return failed(err)
		}
		_ = conn.Close()
		return Outcome{OK: true, Output: "nomad: tcp ok"}
	}
	return s.ask(ctx)
}

// failed returns the outcome of a check that could not be made or got no
// answer. Its output begins as Nomad's does.
func failed(err error) Outcome { return Outcome{Output: clip("nomad: " + err.Error())} }

// ask makes a request of its own connection: a service that works for those who
// are connected already need not for others.
func (s *Spec) ask(ctx context.Context) Outcome {
	req, err := http.NewRequestWithContext(ctx, s.Method, s.Protocol+"://"+s.Address+s.Path, strings.NewReader(s.Body))
	if err != nil {
		return failed(err)
	}
	for name, values := range s.Header {
		for _, v := range values {
			req.Header.Add(name, v)
		}
	}
	// The library ignores a Host among the headers.
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "berth health check")
	}
	transport := &http.Transport{
		DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: s.TLSSkipVerify, ServerName: s.TLSServerName}, // as the job says
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case next.URL.Host != via[0].URL.Host: // the check is about this service
			return errors.New("it redirects to " + next.URL.Host)
		case len(via) > maxRedirects:
			return fmt.Errorf("it redirects more than %d times", maxRedirects)
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	// What arrived before an error is still worth showing.
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil && len(body) == 0 {
		return failed(err)
	}
	o := Outcome{OK: resp.StatusCode >= 200 && resp.StatusCode < 300, Output: clip(string(body)), Code: resp.StatusCode}
	if o.OK {
		o.Output = "nomad: http ok"
	}
	return o
}

// clip makes text from outside fit to be shown.
func clip(s string) string {
	if len(s) > maxOutput {
		s = s[:maxOutput]
	}
	for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// The statuses of a check.
const (
	Pending = "pending" // not known yet
	Success = "success"
	Failure = "failure"
)

// State is what is known of a check.
type State struct {
	Status string
	Since  time.Time // when the status began
	Begun  time.Time // when it was first looked
	Last   Outcome
	At     time.Time // of Last

	good, bad int // in a row
	counted   int // failures in a row that count for a restart
}

// Next is what an outcome makes of what is known. restart says that the check
// has failed so often that its task is to be restarted.
func (st State) Next(s *Spec, o Outcome, now time.Time) (next State, restart bool) {
	st.Last, st.At = o, now
	status := st.Status
	if o.OK {
		st.good, st.bad, st.counted = st.good+1, 0, 0
		if st.good >= max(1, s.SuccessesWanted) {
			status = Success
		}
	} else {
		st.good, st.bad = 0, st.bad+1
		if st.bad >= max(1, s.FailuresWanted) {
			status = Failure
		}
		counts := s.RestartLimit > 0 && !(o.Warning && s.RestartIgnoresWarnings)
		if counts && status == Failure && !now.Before(st.Begun.Add(s.RestartGrace)) {
			st.counted++
			if st.counted >= s.RestartLimit {
				st.counted, restart = 0, true
			}
		}
	}
	if status != st.Status {
		st.Status, st.Since = status, now
	}
	return st, restart
}

// Run looks until ctx ends, and tells what is known after each look. run is for
// scripts alone. tell must not block.
func Run(ctx context.Context, s *Spec, run Executor, tell func(st State, restart bool)) {
	now := time.Now()
	st := State{Status: Pending, Since: now, Begun: now}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		o := s.Look(ctx, run)
		if ctx.Err() != nil {
			return // what a check that was ended found says nothing
		}
		var restart bool
		st, restart = st.Next(s, o, time.Now())
		tell(st, restart)
		timer.Reset(s.Interval)
	}
}
