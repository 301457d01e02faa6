package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// Variables are written 20 times a second and a lock changes hands, while root keys
// are rotated without a pause and the server that leads is killed again and again.
// Afterwards every variable holds what was acknowledged last, or something newer
// that was not; each can be read; and nobody held the lock at the same time as
// another. With BERTH_LONG set there are 25 kills.
func TestKeysAreRotatedWhileLeadersAreKilled(t *testing.T) {
	t.Parallel()
	kills, writes := 2, 40
	if os.Getenv("BERTH_LONG") != "" {
		kills, writes = 25, 200
	}
	w := newWorld(t)
	servers := w.cluster(3)
	ctx, end := context.WithCancel(t.Context())
	x := &load{servers: servers, began: time.Now(), acked: newCountdown(writes)}
	var all sync.WaitGroup
	const writers = 4
	rows := make([]*written, writers)
	for i := range rows {
		rows[i] = &written{at: map[string]*value{}}
		all.Go(func() { x.write(ctx, i, rows[i]) })
	}
	for i := range 3 {
		all.Go(func() { x.lock(ctx, i) })
	}
	var rotated atomic.Int64
	all.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := x.server(n).try("PUT", "/v1/operator/keyring/rotate?full=true", "{}", nil); err == nil {
				rotated.Add(1)
			}
			pause(ctx, 500*time.Millisecond)
		}
	})
	for range kills {
		select {
		case <-x.countdown().over:
		case <-t.Context().Done():
			t.Fatal("writes are not acknowledged any more")
		}
		leader := w.leader(servers)
		leader.Kill()
		x.mu.Lock()
		x.acked = newCountdown(writes)
		x.mu.Unlock()
		leader.start()
		leader.joined()
	}
	<-x.countdown().over
	end()
	all.Wait()

	lost, checked := 0, 0
	for i, s := range servers {
		w.until("s"+strconv.Itoa(i+1)+" has all", func() string {
			lost, checked = 0, 0
			for _, r := range rows {
				for path, v := range r.at {
					var got struct{ Items map[string]string }
					if _, err := s.try("GET", "/v1/var/"+path, "", &got); err != nil {
						return path + ": " + err.Error()
					}
					n, err := strconv.Atoi(got.Items["n"])
					if err != nil || n < v.acked || n > v.tried {
						lost++
					}
					checked++
				}
			}
			return ""
		})
		if lost > 0 || checked < 10*writers {
			t.Errorf("%s: of %d variables %d hold something else than what was written", s.Name, checked, lost)
		}
	}
	if rotated.Load() < 2 {
		t.Errorf("keys were rotated %d times", rotated.Load())
	}
	result, info := porcupine.CheckOperationsVerbose(holders, x.history, time.Minute)
	if result != porcupine.Ok {
		t.Errorf("the lock was held twice (%s): %+v\n%+v", result, x.history, info.PartialLinearizations())
	}
	if n := x.held.Load(); n < 5 {
		t.Errorf("the lock was held %d times", n)
	}
	t.Logf("%d kills, %d rotations, %d writes, the lock was held %d times in %v", kills, rotated.Load(), x.writes.Load(), x.held.Load(), time.Since(x.began).Round(time.Second))
}

// load is what users do meanwhile.
type load struct {
	servers      []*agent
	began        time.Time
	held, writes atomic.Int64

	mu      sync.Mutex
	acked   *countdown // of acknowledged writes
	history []porcupine.Operation
}

func (x *load) countdown() *countdown {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.acked
}

func (x *load) server(n int) *agent { return x.servers[n%len(x.servers)] }

// pause waits, or until the test ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// written is what one writer wrote, by path; it is the only one that writes there.
type written struct{ at map[string]*value }

// value is the newest number that was acknowledged, and the newest that was tried.
type value struct{ acked, tried int }

// write writes five times a second: growing numbers at ten paths.
func (x *load) write(ctx context.Context, writer int, to *written) {
	for n := 1; ctx.Err() == nil; n++ {
		path := fmt.Sprintf("w%d/%d", writer, n%10)
		v := to.at[path]
		if v == nil {
			v = &value{}
			to.at[path] = v
		}
		v.tried = n
		// What is not acknowledged may be written all the same, but not later than
		// what follows at this path is: a server that was killed is asked no more.
		_, err := x.server(writer+n).try("PUT", "/v1/var/"+path, fmt.Sprintf(`{"Path":%q,"Items":{"n":"%d"}}`, path, n), nil)
		if err == nil {
			v.acked = n
			x.writes.Add(1)
			x.countdown().tick()
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// The lock's shortest time, in which it is held for certain, and its delay.
const lockTTL, lockDelay = 10 * time.Second, time.Second

// lock takes the lock, holds it for a moment and gives it up.
func (x *load) lock(ctx context.Context, who int) {
	for n := 0; ctx.Err() == nil; n++ {
		var got struct{ Lock struct{ ID string } }
		call := time.Since(x.began)
		_, err := x.server(who+n).try("PUT", "/v1/var/lock?lock-acquire", fmt.Sprintf(`{"Path":"lock","Lock":{"TTL":%q,"LockDelay":%q}}`, lockTTL, lockDelay), &got)
		back := time.Since(x.began)
		var no *refused
		switch {
		case errors.As(err, &no) && no.code < 500: // somebody else has it
		case err != nil:
			// Nobody knows whether it was taken. If it was, it is free again some time
			// after its TTL.
			c := claim{holder: fmt.Sprint(who, ".", n), unknown: true}
			x.note(who, c, call, never)
			x.note(who, claim{holder: c.holder, ends: true, unknown: true}, call+lockTTL, never)
		default:
			x.held.Add(1)
			c := claim{holder: fmt.Sprint(who, ".", n)}
			x.note(who, c, call, back)
			pause(ctx, 50*time.Millisecond)
			gone := min(time.Since(x.began), call+lockTTL)
			_, err := x.server(who+n+1).try("PUT", "/v1/var/lock?lock-release", fmt.Sprintf(`{"Path":"lock","Lock":{"ID":%q}}`, got.Lock.ID), nil)
			until := time.Since(x.began)
			if err != nil { // it ends by itself at the latest
				until = never
			}
			x.note(who, claim{holder: c.holder, ends: true}, gone, until)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// never is the end of what may happen at any later time.
const never = time.Duration(1 << 62)

// claim is one change of who holds the lock.
type claim struct {
	holder        string
	ends, unknown bool // it gives the lock up; it may not have happened
}

func (x *load) note(who int, c claim, call, back time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.history = append(x.history, porcupine.Operation{ClientId: len(x.history), Input: c, Call: int64(call), Return: int64(back)})
}

// holders is the model of a lock: it is held by one, or by nobody.
var holders = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, in, _ any) []any {
		now, c := state.(string), in.(claim)
		switch {
		case !c.ends && !c.unknown && now == "":
			return []any{c.holder}
		case !c.ends && c.unknown && now == "":
			return []any{"", c.holder}
		case !c.ends && c.unknown:
			return []any{now}
		case c.ends && now == c.holder:
			return []any{""}
		case c.ends && c.unknown:
			return []any{now}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// The model finds a lock that is held twice.
func TestTheModelOfALock(t *testing.T) {
	o := func(c claim, call, back int64) porcupine.Operation {
		return porcupine.Operation{Input: c, Call: call, Return: back}
	}
	a, b := claim{holder: "a"}, claim{holder: "b"}
	endA, endB := claim{holder: "a", ends: true}, claim{holder: "b", ends: true}
	maybe, endMaybe := claim{holder: "c", unknown: true}, claim{holder: "c", ends: true, unknown: true}
	for _, x := range []struct {
		name string
		all  []porcupine.Operation
		want porcupine.CheckResult
	}{
		{"one after the other", []porcupine.Operation{o(a, 1, 2), o(endA, 3, 4), o(b, 5, 6), o(endB, 7, 8)}, porcupine.Ok},
		{"at the same time", []porcupine.Operation{o(a, 1, 2), o(b, 3, 4), o(endA, 5, 6), o(endB, 7, 8)}, porcupine.Illegal},
		{"given up meanwhile", []porcupine.Operation{o(a, 1, 2), o(endA, 3, 6), o(b, 4, 5), o(endB, 7, 8)}, porcupine.Ok},
		{"an unknown one that was none", []porcupine.Operation{o(maybe, 1, int64(never)), o(b, 2, 3), o(endB, 4, 5), o(endMaybe, 20, int64(never))}, porcupine.Ok},
		{"an unknown one is no excuse", []porcupine.Operation{o(maybe, 1, int64(never)), o(a, 2, 3), o(b, 4, 5), o(endA, 6, 7), o(endB, 8, 9), o(endMaybe, 20, int64(never))}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperationsTimeout(holders, x.all, time.Minute); got != x.want {
			t.Errorf("%s: %s, not %s", x.name, got, x.want)
		}
	}
}
