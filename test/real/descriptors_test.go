package real

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/bed"
)

// flood opens n connections to a port from several addresses, and leaves them
// silent. The returned function closes them.
func flood(t *testing.T, addr string, n int) (end func()) {
	var conns []net.Conn
	for i := range n {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%20))}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			continue // the port has as many as it takes
		}
		conns = append(conns, c)
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// answers waits until the agent answers over HTTP.
func (a *agent) answers() {
	a.w.t.Helper()
	a.w.until("the agent answers", func() string {
		if !a.Running() {
			a.w.t.Fatal("the agent has ended:\n" + a.Said())
		}
		got, err := bed.Call(a.w.t.Context(), "GET", a.addr+"/v1/status/leader", "")
		if err != nil || !got.Good() {
			return fmt.Sprint(got, err)
		}
		return ""
	})
}

// An agent that may open only 300 files survives 400 silent connections to each
// of its ports, and other callers are still served.
func TestAFloodOfConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serf := freePort(t)
	a := w.unstarted("a", both, fmt.Sprintf("ports { serf = %d }", serf))
	a.Prepare = func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -n 300; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	a.start()
	a.joined()
	ports := []string{strings.TrimPrefix(a.addr, "http://"), a.rpc, fmt.Sprint("127.0.0.1:", serf)}
	for range 3 {
		var ends []func()
		for _, p := range ports {
			ends = append(ends, flood(t, p, 400))
		}
		a.answers() // the silent lose their connections after 5 s
		for _, end := range ends {
			end()
		}
	}
	a.answers()
	if said := a.Said(); strings.Contains(said, "no file descriptors left") {
		t.Errorf("the limits of connections left no descriptors:\n%s", said)
	}
}

// An agent whose descriptors have run out refuses callers instead of ending,
// and serves again once it has some.
func TestNoDescriptorsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serf := freePort(t)
	a := w.agent("a", both, fmt.Sprintf("ports { serf = %d }", serf))
	a.joined()
	var usual unix.Rlimit
	if err := unix.Prlimit(a.PID(), unix.RLIMIT_NOFILE, nil, &usual); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		t.Helper()
		if err := unix.Prlimit(a.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: usual.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(3) // it has more than that already
	for _, port := range []string{strings.TrimPrefix(a.addr, "http://"), a.rpc, fmt.Sprint("127.0.0.1:", serf)} {
		c, err := net.Dial("tcp", port)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	w.until("the agent notices", func() string {
		if !a.Running() {
			t.Fatal("the agent has ended:\n" + a.Said())
		}
		// Each call is refused at once, and no call waits for ever.
		if c, err := net.Dial("tcp", a.rpc); err == nil {
			go io.Copy(io.Discard, c)
			defer c.Close()
		}
		if !strings.Contains(a.Said(), "cannot accept a connection") {
			return "nothing in the log"
		}
		return ""
	})
	limit(usual.Cur)
	a.answers()
	a.joined()
}
