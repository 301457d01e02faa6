package api_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/op"
)

// follower is a server that does not lead: who leads, and how the leader is
// reached, is up to the test.
type follower struct {
	api.Others
	mu     sync.Mutex
	leader string
	end    context.CancelFunc // of the time for which that one leads
	dial   func(ctx context.Context, addr string) (net.Conn, error)
}

func (*follower) Leader() (api.Leader, error) { return nil, state.ErrLost }
func (*follower) Address() string             { return "f" }

func (f *follower) Route(context.Context, bool) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, nil
}

func (f *follower) While(ctx context.Context, _ string) (context.Context, context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, f.end = context.WithCancel(ctx)
	return ctx, f.end
}

func (f *follower) Dial(ctx context.Context, addr string) (net.Conn, error) { return f.dial(ctx, addr) }

// leads has another server lead.
func (f *follower) leads(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = addr
	f.end()
}

// answering returns connections to a server that answers once it has read a
// request, by f.
func answering(t *testing.T, f func(net.Conn)) func() net.Conn {
	return func() net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		go func() {
			r, err := http.ReadRequest(bufio.NewReader(far))
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			if err == nil {
				f(far)
				far.Close()
			}
		}()
		return near
	}
}

func passing(t *testing.T, f *follower) *api.Server {
	s, _ := serve(t, func(c *api.Config) { c.Cluster, c.Others = f, f })
	return s
}

const aJob = `{"Job":{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}}`

// While a server dials the leader that was, another is elected: nothing was
// sent, so the request goes to that one.
func TestAnotherLeadsBeforeARequestIsSent(t *testing.T) {
	f := &follower{leader: "old:1"}
	good := answering(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
	})
	f.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == "new:1" {
			return good(), nil
		}
		f.leads("new:1")
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// The leader is lost while it has a write: nobody knows what became of it, so
// it is not repeated. A read is.
func TestWhatMayHaveBeenDoneIsNotRepeated(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodGet} {
		f := &follower{leader: "old:1"}
		var sent atomic.Int32
		lost := answering(t, func(net.Conn) { f.leads("new:1") })
		good := answering(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") })
		f.dial = func(_ context.Context, addr string) (net.Conn, error) {
			sent.Add(1)
			if addr == "new:1" {
				return good(), nil
			}
			return lost(), nil
		}
		path, body := "/v1/jobs", aJob
		if method == http.MethodGet {
			path, body = "/v1/evaluation/00000000-0000-0000-0000-000000000001", ""
		}
		w := ask(passing(t, f), method, path, body)
		if method == http.MethodPut && (w.Code != http.StatusInternalServerError || sent.Load() != 1) {
			t.Errorf("%s: %d %s after %d attempts", method, w.Code, w.Body, sent.Load())
		}
		if method == http.MethodGet && (w.Code != http.StatusOK || sent.Load() != 2) {
			t.Errorf("%s: %d %s after %d attempts", method, w.Code, w.Body, sent.Load())
		}
	}
}

// Who led a moment ago says what came of the write that it has, though another
// leads already: that it was done, or that nothing was, and then the next is
// asked.
func TestWhoLedHasTheLastWord(t *testing.T) {
	done := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	nothing := "HTTP/1.1 500 Internal Server Error\r\nX-Berth-Unled: 1\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name, last string
		sent       int32
	}{{"it was done", done, 1}, {"nothing was done", nothing, 2}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &follower{leader: "old:1"}
				var sent atomic.Int32
				old := answering(t, func(conn net.Conn) {
					f.leads("new:1")
					time.Sleep(500 * time.Millisecond) // what it has takes a while to end
					io.WriteString(conn, c.last)
				})
				good := answering(t, func(conn net.Conn) { io.WriteString(conn, done) })
				f.dial = func(_ context.Context, addr string) (net.Conn, error) {
					sent.Add(1)
					if addr == "new:1" {
						return good(), nil
					}
					return old(), nil
				}
				if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK || sent.Load() != c.sent {
					t.Errorf("%d %s after %d attempts", w.Code, w.Body, sent.Load())
				}
			})
		})
	}
}

// A leader that says nothing any more is not waited for long.
func TestWhoLedIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &follower{leader: "old:1"}
		silent := answering(t, func(conn net.Conn) {
			f.leads("new:1")
			conn.Read(make([]byte, 1)) // until it is hung up
		})
		f.dial = func(context.Context, string) (net.Conn, error) { return silent(), nil }
		asked := time.Now()
		w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob)
		if took := time.Since(asked); w.Code != http.StatusInternalServerError || took != time.Second {
			t.Errorf("%d %s after %v", w.Code, w.Body, took)
		}
	})
}

// A server that is not reached did nothing, and the next is asked.
func TestTheNextIsAskedIfALeaderIsNotReached(t *testing.T) {
	f := &follower{leader: "old:1"}
	good := answering(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") })
	f.dial = func(_ context.Context, addr string) (net.Conn, error) {
		if addr == "new:1" {
			return good(), nil
		}
		f.leads("new:1")
		return nil, errors.Join(api.ErrUnreached, errors.New("connection refused"))
	}
	if w := ask(passing(t, f), http.MethodPut, "/v1/jobs", aJob); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// What a leader refuses is refused in its words, and with its code, by the server
// that was asked.
func TestARefusalKeepsItsCode(t *testing.T) {
	f := &follower{leader: "old:1"}
	leads, log := serve(t, nil)
	_, err := log.Propose(t.Context(), small(t, "web", 1))
	if err != nil {
		t.Fatal(err)
	}
	f.dial = func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		t.Cleanup(func() { far.Close() })
		go func() {
			r, err := http.ReadRequest(bufio.NewReader(far))
			if err == nil {
				w := httptest.NewRecorder()
				leads.ServeHTTP(w, r)
				w.Result().Write(far)
			}
			far.Close()
		}()
		return near, nil
	}
	w := ask(passing(t, f), "DELETE", "/v1/job/web?purge=true&uid=j-0000000000000001-00", "")
	if w.Code != http.StatusConflict || w.Header().Get(op.HeaderCode) != berth.CodeUIDMismatch {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}
