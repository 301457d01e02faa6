// Package element is what the programs of the example jobs telemetry and alerts
// have in common: each is a processing element, which gets tuples at its inputs
// and sends others from its outputs.
//
// Who it is connected with it reads in the file that Berth keeps for it, again
// whenever it is told SIGHUP; and it says in return which of these connections
// it has. Tuples go from output to input over TCP, one JSON text a line. What
// is sent while somebody is not connected, is not sent to that one: nothing is
// repeated.
package element

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// file is what Berth keeps at STREAM_CONNECTIVITY_FILE, as far as we use it.
type file struct {
	Version uint64
	Inputs  []struct {
		Name, Bind string
		From       []peer
	}
	Outputs []struct {
		Name, Distribution string
		To                 []target
	}
}

// peer is an output that feeds an input.
type peer struct{ PE, Output, Kind string }

// target is an input that an output feeds.
type target struct{ Kind, Job, PE, Input, Addr, Filter, Import, Congestion string }

// Tuple is one measurement on its way.
type Tuple struct {
	Seq   int
	Value float64
	Score float64 `json:",omitempty"`
	Via   string  // the processing elements that it went through
}

// Element is this processing element.
type Element struct {
	Name string

	path   string
	api    string // where reports go
	client *http.Client

	mu      sync.Mutex
	file    file
	outputs map[string]*output
	heard   map[string]int      // connections by input and by who sends
	counted map[string]progress // what was printed last

	wake chan struct{} // a connection came or went
}

type progress struct {
	n  int
	at time.Time
}

// Run runs a program: f with its processing element, until it returns or the
// program is asked to end. It returns the program's exit code.
func Run(f func(context.Context, *Element) error) int {
	// First of all: before, a SIGHUP would end the program.
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	e := newElement(os.Getenv)
	err := e.read()
	if err == nil {
		fmt.Printf("%s, launch %s of %s\n", e.Name, os.Getenv("STREAM_LAUNCH_COUNT"), os.Getenv("STREAM_PE_UID"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.follow(ctx, changed)
		}()
		err = f(ctx, e)
		stop()
		<-done
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		return 1
	}
	return 0
}

func newElement(env func(string) string) *Element {
	e := &Element{
		Name: env("STREAM_PE"), path: env("STREAM_CONNECTIVITY_FILE"), api: env("STREAM_API"),
		outputs: map[string]*output{}, heard: map[string]int{}, counted: map[string]progress{}, wake: make(chan struct{}, 1),
		client: &http.Client{Timeout: 10 * time.Second},
	}
	if socket, ok := strings.CutPrefix(e.api, "unix://"); ok {
		e.api = "http://agent"
		e.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	}
	return e
}

// read takes over the connectivity file.
func (e *Element) read() error {
	if e.path == "" {
		return errors.New("STREAM_CONNECTIVITY_FILE is not set: this program is to be run by a stream job")
	}
	b, err := os.ReadFile(e.path)
	if err != nil {
		return err
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%s: %w", e.path, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.Version == e.file.Version {
		return nil
	}
	fmt.Printf("connections, version %d:%s\n", f.Version, summary(&f))
	e.file = f
	for _, o := range f.Outputs {
		if e.outputs[o.Name] == nil {
			e.outputs[o.Name] = &output{links: map[target]*link{}}
		}
		e.outputs[o.Name].wire(e, o.Distribution, o.To)
	}
	return nil
}

func summary(f *file) (out string) {
	for _, in := range f.Inputs {
		out += fmt.Sprintf(" %s at %s from %d;", in.Name, in.Bind, len(in.From))
	}
	for _, o := range f.Outputs {
		for _, t := range o.To {
			addr := t.Addr
			if addr == "" {
				addr = "nowhere yet"
			}
			out += fmt.Sprintf(" %s to %s.%s at %s;", o.Name, t.PE, t.Input, addr)
		}
	}
	return out
}

// follow reads the file again when it has changed, of which SIGHUP tells at
// once and a look each second in any case, and reports which connections there
// are.
func (e *Element) follow(ctx context.Context, changed <-chan os.Signal) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	said := ""
	for {
		if err := e.read(); err != nil {
			fmt.Println(err)
		}
		state, version := e.state()
		if say := fmt.Sprint(state, version); say != said {
			switch code, err := e.report(ctx, state, version); {
			case err != nil && ctx.Err() == nil:
				fmt.Println("a report failed:", err)
			case code == http.StatusNoContent:
				fmt.Printf("reported %s, version %d\n", state, version)
				said = say
			}
		}
		select {
		case <-changed:
		case <-e.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// state says which of its connections the element has: those that it opens,
// and those that are opened to it.
func (e *Element) state() (string, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	have, want := 0, 0
	for _, o := range e.outputs {
		h, w := o.connected()
		have, want = have+h, want+w
	}
	for _, in := range e.file.Inputs {
		want += len(in.From)
		for _, p := range in.From {
			if e.heard[in.Name+" "+p.PE] > 0 {
				have++
			}
		}
	}
	switch {
	case have == want:
		return "full", e.file.Version
	case have == 0:
		return "none", e.file.Version
	}
	return "partial", e.file.Version
}

// report tells Berth. It is 409 if the file has changed meanwhile, or this
// launch is over.
func (e *Element) report(ctx context.Context, state string, version uint64) (int, error) {
	body, err := json.Marshal(map[string]any{"State": state, "Version": version})
	if err != nil {
		return 0, err
	}
	u, err := url.JoinPath(e.api, "/v1/stream/pe/self/connectivity")
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if err == nil && resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusConflict {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp.StatusCode, err
}

func (e *Element) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Send sends a tuple from an output.
func (e *Element) Send(name string, t Tuple) {
	e.mu.Lock()
	o := e.outputs[name]
	e.mu.Unlock()
	if o != nil {
		o.send(t)
	}
}

// Receive listens at all inputs and calls f with each tuple, one at a time,
// until ctx ends.
func (e *Element) Receive(ctx context.Context, f func(input string, t Tuple)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var one sync.Mutex
	e.mu.Lock()
	inputs := e.file.Inputs
	e.mu.Unlock()
	for _, in := range inputs {
		l, err := net.Listen("tcp", in.Bind)
		if err != nil {
			cancel(err)
			return fmt.Errorf("input %s: %w", in.Name, err)
		}
		defer context.AfterFunc(ctx, func() { l.Close() })()
		wg.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					cancel(err)
					return
				}
				wg.Go(func() {
					e.hear(ctx, in.Name, conn, func(t Tuple) {
						one.Lock()
						defer one.Unlock()
						f(in.Name, t)
					})
				})
			}
		})
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// hear takes tuples from one connection. Its first line says whose it is.
func (e *Element) hear(ctx context.Context, input string, conn net.Conn, f func(Tuple)) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	lines := bufio.NewScanner(conn)
	if !lines.Scan() {
		return
	}
	who := input + " " + lines.Text()
	note := func(by int) {
		e.mu.Lock()
		e.heard[who] += by
		e.mu.Unlock()
		e.nudge()
	}
	note(1)
	defer note(-1)
	fmt.Printf("%s is connected with %s\n", lines.Text(), input)
	for lines.Scan() {
		var t Tuple
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			fmt.Printf("%s sends nonsense: %v\n", who, err)
			return
		}
		f(t)
	}
}

// Count prints how much there is of something, once a second, and reports whether
// it did.
func (e *Element) Count(what string, n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := e.counted[what]
	if time.Since(last.at) < time.Second {
		return false
	}
	e.counted[what] = progress{n, time.Now()}
	fmt.Printf("%s: %d\n", what, n)
	return true
}
