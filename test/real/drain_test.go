package real

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/internal/eventually"
	"berth/test/bed"
)

// greeter is the program of a small HTTP service, built once for all tests.
var greeter = sync.OnceValues(func() (string, error) {
	path := filepath.Join(bed.SuiteDir(), "hello")
	return path, bed.Program(path, "berth/examples/hello")
})

// visitor asks a service over and over, at the addresses under which it is
// listed, each in its turn.
type visitor struct {
	stop, done chan struct{}
	asked      int
	fewest     int // instances that were listed at a time
	failures   []error

	mu    sync.Mutex // guards known
	known []instance // the list that it saw last
}

// instance is one of a service, as it is listed.
type instance struct {
	Address, AllocID string
	Port             int
	Unhealthy        bool
}

// knows counts the instances of some allocations that the visitor may still ask.
func (v *visitor) knows(allocs []string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range v.known {
		if slices.Contains(allocs, i.AllocID) {
			n++
		}
	}
	return n
}

// visit begins. While the server is away, the visitor goes by the list it saw
// last.
func (a *agent) visit(service string) *visitor {
	v := &visitor{stop: make(chan struct{}), done: make(chan struct{}), fewest: math.MaxInt}
	go func() {
		defer close(v.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-v.stop:
				return
			case <-tick.C:
			}
			var now []instance
			_, err := a.try("GET", "/v1/service/"+service, "", &now)
			if r := (*refused)(nil); err == nil && len(now) == 0 || errors.As(err, &r) && r.code == 404 {
				v.failures = append(v.failures, fmt.Errorf("%s has no instances: %v", service, err))
				continue
			}
			if err == nil { // whose checks have not passed yet may not listen yet
				v.fewest = min(v.fewest, len(now))
				v.mu.Lock()
				v.known = slices.DeleteFunc(now, func(i instance) bool { return i.Unhealthy })
				v.mu.Unlock()
			}
			if len(v.known) == 0 { // nobody else writes it
				continue
			}
			i := v.known[v.asked%len(v.known)]
			v.asked++
			if err := ask(fmt.Sprintf("http://%s:%d/", i.Address, i.Port)); err != nil {
				v.failures = append(v.failures, fmt.Errorf("allocation %s: %w", i.AllocID, err))
			}
		}
	}()
	return v
}

// ask wants one page.
func ask(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	page, err := bed.Call(ctx, http.MethodGet, url, "")
	if err == nil && (page.Code != http.StatusOK || !strings.HasPrefix(page.Text, "Hello from ")) {
		err = fmt.Errorf("%s: %d, %q", url, page.Code, page.Text)
	}
	return err
}

// leave ends the visit.
func (v *visitor) leave() {
	close(v.stop)
	<-v.done
}

// One of three nodes is drained while a client asks the service that runs on
// all of them: it never fails. The server is killed after the first instance has
// left; on a busy machine, the second may have left as well.
func TestADrainThatNoClientNotices(t *testing.T) {
	t.Parallel()
	program, err := greeter()
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, 3)
	w := f.w
	f.good("job", "run", "-detach", w.file("hello.nomad", fmt.Sprintf(`
job "hello" {
  group "g" {
    count          = 6
    shutdown_delay = "2s"
    spread { attribute = "${node.unique.id}" }
    update {
      max_parallel     = 6
      min_healthy_time = "1s"
    }
    migrate {
      max_parallel     = 1
      min_healthy_time = "1s"
      start_first      = true
    }
    network {
      port "http" {}
    }
    service {
      name     = "hello"
      provider = "nomad"
      port     = "http"
      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "5s"
      }
    }
    task "main" {
      driver = "raw_exec"
      config { command = %q }
      env { GREETING = "Hello" }
      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}`, program)))
	f.deployed("hello", 0, "successful")
	on := f.on("hello", "running")
	node := f.nodes[0].nodeID
	if on[node] != 2 || len(on) != 3 {
		t.Fatalf("they run on %v", on)
	}
	wave := func() (old, replaced int) {
		for _, p := range f.placed("hello", 0) {
			switch {
			case p.NodeID == node && p.active():
				old++
			case p.NodeID == node && p.ClientStatus == "complete":
				replaced++
			}
		}
		return old, replaced
	}

	v := f.visit("hello")
	var leave []string
	for _, p := range f.placed("hello", 0) {
		if p.NodeID == node {
			leave = append(leave, p.ID)
		}
	}
	w.until("the visitor knows all", func() string {
		if n := v.knows(leave); n != 2 {
			return fmt.Sprint(n)
		}
		return ""
	})
	f.good("node", "drain", "-enable", "-yes", "-detach", node)
	// Before that, a server that is killed could tell nobody that it leaves.
	w.until("the first leaves", func() string {
		old, replaced := wave()
		if n := v.knows(leave); old > 1 || n > 1 {
			return fmt.Sprintf("%d run there, %d have left, %d are listed", old, replaced, n)
		}
		return ""
	})
	f.again()
	w.until("the node is empty", func() string {
		var n struct {
			SchedulingEligibility string
			DrainStrategy         any
			LastDrain             struct{ Status string }
		}
		f.get("/v1/node/"+node, &n)
		if n.DrainStrategy == nil && n.LastDrain.Status == "complete" && n.SchedulingEligibility == "ineligible" {
			return ""
		}
		return fmt.Sprintf("%+v", n)
	})
	if old, replaced := wave(); old != 0 || replaced != 2 {
		t.Errorf("the drain is done; %d run there, %d have left", old, replaced)
	}
	v.leave()
	if len(v.failures) > 0 || v.asked < 50 {
		t.Errorf("%d asked, %d failed: %v", v.asked, len(v.failures), errors.Join(v.failures...))
	}
	if v.fewest < 6 {
		t.Errorf("at a time, only %d were listed", v.fewest)
	}
	f.settled("hello", 6)
	if all := f.placed("hello", 0); len(all) != 8 {
		t.Errorf("for two that left, %d were placed", len(all)-6)
	}
	if on := f.on("hello", "running"); on[node] != 0 {
		t.Errorf("they run on %v", on)
	}
	w.holds(f.good("service", "info", "hello"), "hello")
}
