package gossip

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/accept"
	_ "berth/internal/onethread"
)

// One address has a limited number of connections; the next ones are closed
// before a byte is read, and those that are closed make way for others.
func TestConnectionsOfOneAddress(t *testing.T) {
	x, err := listen("127.0.0.1", 0, 0, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Shutdown()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", x.tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	var taken []net.Conn
	for range perHostMost {
		dial()
		taken = append(taken, <-x.StreamCh())
	}
	if b, err := io.ReadAll(dial()); len(b) > 0 || err != nil {
		t.Errorf("the connection beyond the limit got %q, %v: want the end", b, err)
	}
	taken[3].Close()
	dial()
	(<-x.StreamCh()).Close()
	for _, c := range taken {
		c.Close()
	}
}

// A connection that sends nothing ends soon, however long memberlist would wait
// for it; one that has begun has memberlist's time.
func TestSilentConnectionsEndSoon(t *testing.T) {
	for _, c := range []struct {
		name string
		says time.Duration // when the first byte comes; 0: never
		want time.Duration // until the connection ends
	}{
		{"silent", 0, firstTime},
		{"says something in time", time.Second, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &transport{}
				near, far := net.Pipe()
				conn := x.admit(far)
				began := time.Now()
				conn.SetDeadline(began.Add(10 * time.Second)) // as memberlist does
				if c.says > 0 {
					time.AfterFunc(c.says, func() { near.Write([]byte{1}) })
				}
				io.Copy(io.Discard, conn)
				if took := time.Since(began); took != c.want {
					t.Errorf("it ended after %v, want %v", took, c.want)
				}
				conn.Close()
				if n := x.gate.Open(); n != 0 {
					t.Errorf("%d connections are still counted", n)
				}
			})
		})
	}
}

// With as many connections as there may be, from any address, others are
// refused.
func TestConnectionsInAll(t *testing.T) {
	x := &transport{gate: accept.Gate{Most: 2, PerHost: perHostMost}}
	for i := range 3 {
		_, far := net.Pipe()
		if in := x.admit(far); (in != nil) != (i < 2) {
			t.Errorf("connection %d: %v", i+1, in)
		}
	}
}

// Packets that mean nothing are logged a few times, and counted after that.
func TestBadPacketsDoNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		logger := newLogger(slog.New(slog.NewTextHandler(&out, nil)), false)
		for i := range 10_000 {
			logger.Printf("[ERR] memberlist: Decrypt packet failed: %d", i)
		}
		logger.Printf("[WARN] memberlist: Refuting a suspect message")
		time.Sleep(time.Minute)
		for range 2 {
			logger.Printf("[ERR] memberlist: Decrypt packet failed")
		}
	})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	// The last two are of another statement, whose count is its own.
	if len(lines) != linesMost+3 || !strings.Contains(out.String(), "Refuting") {
		t.Errorf("%d lines were logged, want %d:\n%s", len(lines), linesMost+3, &out)
	}
	if !strings.Contains(lines[0], `level=ERROR msg="memberlist: Decrypt packet failed: 0"`) {
		t.Errorf("the first line is %s", lines[0])
	}
}
