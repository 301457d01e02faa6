package element

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"berth/internal/eventually"
)

// agent is what Berth's agent is to one processing element.
type agent struct {
	*Element
	t    *testing.T
	path string

	mu   sync.Mutex
	said []string
}

func newAgent(t *testing.T, name string) *agent {
	a := &agent{t: t, path: filepath.Join(t.TempDir(), "connectivity.json")}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in struct{ State string }
		if err := json.Unmarshal(body, &in); err != nil || r.Method != "PUT" || r.URL.Path != "/v1/stream/pe/self/connectivity" {
			t.Errorf("%s %s: %s", r.Method, r.URL, body)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.said = append(a.said, in.State)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(api.Close)
	a.Element = newElement(func(v string) string {
		return map[string]string{"STREAM_PE": name, "STREAM_CONNECTIVITY_FILE": a.path, "STREAM_API": api.URL}[v]
	})
	return a
}

func (a *agent) write(text string) {
	a.t.Helper()
	if err := os.WriteFile(a.path, []byte(text), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) last() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.said) == 0 {
		return ""
	}
	return a.said[len(a.said)-1]
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(eventually.Limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// Tuples take turns between the static targets, and go to a dynamic one that
// wants them; what is reported follows from what is connected.
func TestTuplesFindTheirWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	addr := l.Addr().String()
	from, to := newAgent(t, "a[0]"), newAgent(t, "b[0]")
	to.write(fmt.Sprintf(`{"Version": 1, "Inputs": [{"Name": "in", "Bind": %q, "From": [{"PE": "a[0]"}]}]}`, addr))
	from.write(`{"Version": 1, "Outputs": [{"Name": "out", "Distribution": "broadcast", "To": [{"Kind": "dynamic", "PE": "b[0]", "Input": "in", "Addr": ""}]}]}`)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	changed := make(chan os.Signal, 1)
	for _, a := range []*agent{from, to} {
		if err := a.read(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { a.follow(ctx, changed) })
	}
	got := make(chan int, 100)
	wg.Go(func() {
		if err := to.Receive(ctx, func(_ string, t Tuple) { got <- t.Seq }); err != nil {
			t.Error(err)
		}
	})
	until(t, "both say that they have none", func() bool { return from.last() == "none" && to.last() == "none" })
	from.Send("out", Tuple{Seq: 1, Score: 1}) // to nobody
	from.write(fmt.Sprintf(`{"Version": 2, "Outputs": [{"Name": "out", "Distribution": "broadcast", "To": [{"Kind": "dynamic", "PE": "b[0]", "Input": "in", "Addr": %q, "Filter": "score > 0.9"}]}]}`, addr))
	changed <- os.Interrupt // whatever it is
	until(t, "both say that they have all", func() bool { return from.last() == "full" && to.last() == "full" })
	for seq, score := range []float64{0.5, 0.95, 0.9, 1} {
		from.Send("out", Tuple{Seq: seq + 2, Score: score})
	}
	for _, want := range []int{3, 5} {
		select {
		case seq := <-got:
			if seq != want {
				t.Errorf("tuple %d came, and should be %d", seq, want)
			}
		case <-time.After(eventually.Limit):
			t.Fatal("no tuple comes")
		}
	}
	from.write(`{"Version": 3, "Outputs": [{"Name": "out", "To": []}]}`)
	changed <- os.Interrupt
	until(t, "what is not a target any more is let go", func() bool { return to.last() == "none" })
}

func TestTargetsTakeTurns(t *testing.T) {
	o := &output{distribution: "round-robin"}
	for range 3 {
		o.order = append(o.order, &link{queue: make(chan Tuple, 100), up: true, to: target{Kind: "static"}})
	}
	o.order = append(o.order, &link{queue: make(chan Tuple, 100), to: target{Kind: "static"}}) // not connected
	for seq := range 9 {
		o.send(Tuple{Seq: seq})
	}
	for i, want := range []int{3, 3, 3, 0} {
		if n := len(o.order[i].queue); n != want {
			t.Errorf("target %d got %d", i, n)
		}
	}
	o.distribution = "hash"
	for range 4 {
		o.send(Tuple{Seq: 7})
	}
	if n := len(o.order[1].queue); n != 7 {
		t.Errorf("what is equal goes to several: %d", n)
	}
}
