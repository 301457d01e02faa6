package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/agent/supervise"
	"berth/op"
)

// This test binary is also the supervisor, and an agent to be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			os.Exit(supervise.Main(os.Args[2:]))
		case "agent":
			os.Exit(agentProcess(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// cluster is servers in memory, as an agent sees them: what they keep of the
// node and its allocations is what real ones do.
type cluster struct {
	mu       sync.Mutex
	index    uint64
	node     *berth.Node // nil: not registered
	ready    bool
	allocs   map[string]*op.Alloc
	changed  chan struct{}
	ttl      time.Duration
	fail     func(call string) error // nil error: go on
	lag      uint64                  // answers to reads are as of so much lower an index
	log      []string                // of calls, and what came of them
	beats    []time.Time
	news     map[string][]*op.AllocReport // by allocation, those that said something new
	sent     int                          // reports in all
	ofNodes  []*berth.NodeEvent           // events that were told
	batches  []time.Time
	registry int // registrations
	services map[string]*berth.ServiceRegistration
	serviced []string                        // what was said of services, in order
	files    map[string]*op.ConnectivityFile // by allocation
	linked   []op.ReportConnectivity         // reports of connections, in order
	disk     func(context.Context, *op.ReadDisk) (*op.DiskAnswer, error)
}

func newCluster() *cluster {
	return &cluster{index: 10, allocs: map[string]*op.Alloc{}, changed: make(chan struct{}), ttl: 10 * time.Second, news: map[string][]*op.AllocReport{}, services: map[string]*berth.ServiceRegistration{}}
}

// step changes something under the lock, at a new index.
func (c *cluster) step(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) enter(call string) error {
	if c.fail != nil {
		if err := c.fail(call); err != nil {
			c.log = append(c.log, call+" failed")
			return err
		}
	}
	return nil
}

func (c *cluster) Attach(*Agent) {}
func (c *cluster) Close()        {}

// Call implements Servers.
func (c *cluster) Call(ctx context.Context, method string, in, out any) error {
	switch in := in.(type) {
	case *op.RegisterNode:
		a, err := c.Register(ctx, in)
		return into(out, a, err)
	case *op.BeatNode:
		a, err := c.Beat(ctx, in)
		return into(out, a, err)
	case *op.NodeAllocIndexes:
		a, err := c.Pull(ctx, in)
		return into(out, a, err)
	case *op.GetAllocs:
		a, err := c.Fetch(ctx, in)
		return into(out, a, err)
	case *op.ReportAllocs:
		a, err := c.Report(ctx, in)
		return into(out, a, err)
	case *op.EmitEvents:
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.enter("events"); err != nil {
			return err
		}
		for _, events := range in.NodeEvents {
			c.ofNodes = append(c.ofNodes, events...)
		}
		return nil
	case *op.UpsertServices:
		return c.UpsertServices(ctx, in)
	case *op.DeleteServiceByID:
		return c.RemoveService(ctx, in)
	case *op.ConnectivityQuery:
		a, err := c.Connectivity(ctx, in)
		return into(out, a, err)
	case *op.ReportConnectivity:
		return c.ReportConnectivity(ctx, in)
	case *op.ReadDisk:
		a, err := c.disk(ctx, in)
		return into(out, a, err)
	}
	return berth.Errorf(berth.Invalid, "%s: the agent should not call it", method)
}

// into sets out to an answer, if there is one.
func into[T any](out any, answer *T, err error) error {
	if answer != nil {
		*out.(*T) = *answer
	}
	return err
}

func (c *cluster) Register(_ context.Context, in *op.RegisterNode) (*op.NodeAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("register"); err != nil {
		return nil, err
	}
	if in.AuthToken != in.Node.SecretID || in.AuthToken == "" {
		return nil, berth.Errorf(berth.Denied, "no secret")
	}
	c.node, c.ready = in.Node, false
	c.registry++
	return &op.NodeAnswer{HeartbeatTTL: c.ttl, NodeModifyIndex: c.index}, nil
}

func (c *cluster) Beat(_ context.Context, in *op.BeatNode) (*op.NodeAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("beat"); err != nil {
		return nil, err
	}
	if c.node == nil {
		return nil, berth.Errorf(berth.NotFound, "node not found")
	}
	c.ready = in.Status == berth.NodeReady
	c.beats = append(c.beats, time.Now())
	return &op.NodeAnswer{HeartbeatTTL: c.ttl}, nil
}

func (c *cluster) Pull(ctx context.Context, in *op.NodeAllocIndexes) (*op.NodeAllocIndexesAnswer, error) {
	timeout := time.After(cmp.Or(in.MaxQueryTime, time.Minute))
	late := false
	for {
		c.mu.Lock()
		if err := c.enter("pull"); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		index, changed := c.index-c.lag, c.changed
		if index > in.MinQueryIndex || in.MinQueryIndex == 0 || late {
			out := &op.NodeAllocIndexesAnswer{Allocs: map[string]uint64{}}
			out.Index = index
			for id, a := range c.allocs {
				if a.CreateIndex <= index {
					out.Allocs[id] = min(a.AllocModifyIndex, index)
				}
			}
			c.mu.Unlock()
			return out, nil
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			late = true
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *cluster) Fetch(_ context.Context, in *op.GetAllocs) (*op.GetAllocsAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("fetch"); err != nil {
		return nil, err
	}
	out := new(op.GetAllocsAnswer)
	for _, id := range in.AllocIDs {
		if a := c.allocs[id]; a != nil {
			b := *a
			out.Allocs = append(out.Allocs, &b)
		}
	}
	out.Index = c.index - c.lag
	return out, nil
}

func (c *cluster) Report(_ context.Context, in *op.ReportAllocs) (*op.WriteAnswer, error) {
	var refused error
	c.step(func() {
		if refused = c.enter("report"); refused != nil {
			return
		}
		c.batches = append(c.batches, time.Now())
		for _, n := range in.Alloc {
			c.sent++
			id := n.ID.String()
			a := c.allocs[id]
			if a == nil {
				continue // accepted and ignored
			}
			if all := c.news[id]; len(all) == 0 || !sameNews(all[len(all)-1], n) {
				c.news[id] = append(all, n)
			}
			b := *a
			b.ClientStatus, b.ClientDescription, b.TaskStates, b.ModifyIndex = n.ClientStatus, n.ClientDescription, op.ShowTaskStates(n.TaskStates), c.index
			c.allocs[id] = &b
		}
	})
	return &op.WriteAnswer{}, refused
}

func (c *cluster) UpsertServices(_ context.Context, in *op.UpsertServices) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("services"); err != nil {
		return err
	}
	for _, r := range in.Services {
		c.services[r.ID] = r
		c.serviced = append(c.serviced, fmt.Sprintf("+%s %s:%d %s", r.ServiceName, r.Address, r.Port, strings.Join(r.Tags, ",")))
	}
	return nil
}

func (c *cluster) RemoveService(_ context.Context, in *op.DeleteServiceByID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enter("services"); err != nil {
		return err
	}
	if r := c.services[in.ID]; r != nil {
		delete(c.services, in.ID)
		c.serviced = append(c.serviced, "-"+r.ServiceName)
	}
	return nil
}

// named returns where the instances of a service are, in order of ID.
func (c *cluster) named(service string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(c.services)) {
		if r := c.services[id]; r.ServiceName == service {
			out = append(out, fmt.Sprintf("%s:%d %s", r.Address, r.Port, strings.Join(r.Tags, ",")))
		}
	}
	return strings.Join(out, "; ")
}

// sick returns whether the instances of a service are unhealthy.
func (c *cluster) sick(service string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(c.services)) {
		if r := c.services[id]; r.ServiceName == service {
			out = append(out, fmt.Sprint(r.Unhealthy))
		}
	}
	return strings.Join(out, "; ")
}

func sameNews(a, b *op.AllocReport) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// place puts an allocation on the node.
func (c *cluster) place(a *op.Alloc) string {
	c.step(func() {
		b := *a
		if c.node != nil && b.NodeID.IsZero() {
			b.NodeID = c.node.ID
		}
		b.CreateIndex, b.ModifyIndex, b.AllocModifyIndex = c.index, c.index, c.index
		c.allocs[b.ID.String()] = &b
	})
	return a.ID.String()
}

// want changes what is wanted of an allocation.
func (c *cluster) want(id string, f func(*op.Alloc)) {
	c.step(func() {
		b := *c.allocs[id]
		f(&b)
		b.ModifyIndex, b.AllocModifyIndex = c.index, c.index
		c.allocs[id] = &b
	})
}

func (c *cluster) stop(id string) {
	c.want(id, func(a *op.Alloc) {
		a.DesiredStatus, a.DesiredDescription = berth.DesiredStop, "the job was stopped"
	})
}

func (c *cluster) forget(id string) { c.step(func() { delete(c.allocs, id) }) }

func (c *cluster) alloc(id string) *op.Alloc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocs[id]
}

func (c *cluster) status(id string) string {
	a := c.alloc(id)
	if a == nil {
		return "gone"
	}
	return a.ClientStatus.String()
}

// story tells what was reported of an allocation, without repetitions.
func (c *cluster) story(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, n := range c.news[id] {
		if s := n.ClientStatus.String(); len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// events tells the history of a task as servers know it.
func (c *cluster) events(id, task string) string {
	a := c.alloc(id)
	if a == nil || a.TaskStates[task] == nil {
		return ""
	}
	var out []string
	for _, e := range a.TaskStates[task].Events {
		out = append(out, e.Type)
	}
	return strings.Join(out, ", ")
}

func (c *cluster) isReady() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready
}

func (c *cluster) registrations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registry
}

func (c *cluster) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.allocs))
}

var allocs struct {
	sync.Mutex
	n int
}

// newAlloc makes an allocation of a job with these tasks, in JSON.
func newAlloc(t testing.TB, jobType, tasks string, more ...string) *op.Alloc {
	t.Helper()
	job, err := admit.ParseJob([]byte(fmt.Sprintf(`{"ID":"job","Type":%q,"TaskGroups":[{"Name":"g","Tasks":[%s]%s}]}`, jobType, tasks, strings.Join(more, ""))))
	if err != nil {
		t.Fatal(err)
	}
	allocs.Lock()
	defer allocs.Unlock()
	allocs.n++
	id, err := berth.ParseID[berth.Alloc](fmt.Sprintf("a110c000-0000-4000-8000-%012d", allocs.n))
	if err != nil {
		t.Fatal(err)
	}
	// Two runs of the tests at once must not take each other's for theirs.
	id[4], id[5], id[6], id[7] = byte(os.Getpid()>>24), byte(os.Getpid()>>16), byte(os.Getpid()>>8), byte(os.Getpid())
	return &op.Alloc{ID: id, Namespace: "default", Name: fmt.Sprintf("job.g[%d]", allocs.n), JobID: "job", Job: job, TaskGroup: "g"}
}

func mockTask(name, config string, more ...string) string {
	return fmt.Sprintf(`{"Name":%q,"Driver":"mock_driver","Config":{%s}%s}`, name, config, strings.Join(more, ""))
}

// quick is a restart policy that ends at the first failure.
const quick = `,"RestartPolicy":{"Attempts":0,"Interval":"10m","Delay":"1s","Mode":"fail"}`

var quiet = slog.New(slog.DiscardHandler)
