// Package statetest builds a whole cluster's state in a test: a store, a
// single-server log that applies commands at once, and valid values made by the
// regular decoders.
package statetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/state"
)

// Log is a replicated log of one server. Staged commands are committed in
// order, when somebody waits for them. It is safe for concurrent use.
type Log struct {
	Store *state.Store

	mu   sync.Mutex
	tip  *state.Snapshot
	held []*held // staged after Hold
	hold bool    // stage without committing
	lost error   // not nil after Lose
}

// held is a staged batch that waits for Release.
type held struct {
	batch *state.Batch
	p     *state.Pending
}

// New returns a store with cmds applied, and its log. At the end of the test it
// fails if a stored value was changed in place.
func New(t testing.TB, cmds ...state.Command) (*state.Store, *Log) {
	t.Helper()
	l := &Log{Store: state.New()}
	l.tip = l.Store.Snapshot()
	l.Must(t, cmds...)
	t.Cleanup(func() {
		if err := state.CheckFrozen(); err != nil {
			t.Error(err)
		}
	})
	return l.Store, l
}

// Must applies commands and fails the test if one is refused.
func (l *Log) Must(t testing.TB, cmds ...state.Command) {
	t.Helper()
	if _, err := l.Propose(context.Background(), cmds...); err != nil {
		t.Fatal(err)
	}
}

// Propose implements state.Log.
func (l *Log) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	p, err := l.Stage(cmds...)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(ctx); err != nil {
		return nil, err
	}
	return p.Results, state.FirstRefusal(p.Results)
}

// Stage implements state.Log.
func (l *Log) Stage(cmds ...state.Command) (*state.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return nil, l.lost
	}
	tx := state.Begin(l.tip)
	var results []state.Result
	for _, c := range cmds {
		results = append(results, tx.Apply(c))
	}
	h := &held{tx.End(), state.NewPending(results)}
	l.tip = h.batch.Snapshot
	l.held = append(l.held, h)
	if !l.hold {
		l.release()
	}
	p := h.p
	return p, nil
}

// Tip implements state.Log.
func (l *Log) Tip() *state.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip
}

// Hold keeps staged commands uncommitted until Release.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = true
}

// Release commits the held commands.
func (l *Log) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold = false
	l.release()
}

// release publishes the held batches in their order. The caller holds l.mu.
func (l *Log) release() {
	for _, h := range l.held {
		l.Store.Publish(h.batch)
		h.p.Resolve(nil)
	}
	l.held = nil
}

// Lose drops the held commands, as when a leader is deposed; later calls fail.
func (l *Log) Lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = errors.New("leadership lost")
	for _, h := range l.held {
		h.p.Resolve(l.lost)
	}
	l.held = nil
	l.tip = l.Store.Snapshot()
}

// ID returns an ID that is made from n and easy to read.
func ID[T any](n int) (id berth.ID[T]) {
	binary.BigEndian.PutUint32(id[:], uint32(n))
	id[15] = 1
	return id
}

// Node returns a ready node with cpu MHz, mem MiB, and plenty of disk.
func Node(n int, cpu, mem int64, change ...func(*berth.Node)) *berth.Node {
	node := &berth.Node{
		ID: ID[berth.Node](n), SecretID: fmt.Sprintf("secret-%d", n), Name: fmt.Sprintf("n%d", n),
		Datacenter: "dc1", NodePool: berth.DefaultNodePool, Status: berth.NodeReady, SchedulingEligibility: berth.NodeEligible,
		Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": fmt.Sprintf("n%d", n)},
		NodeResources: &berth.NodeResources{
			Cpu: berth.NodeCpuResources{CpuShares: cpu}, Memory: berth.NodeMemoryResources{MemoryMB: mem},
			Disk: berth.NodeDiskResources{DiskMB: 1 << 20},
		},
		ReservedResources: &berth.NodeReservedResources{},
		Drivers: map[string]*berth.DriverInfo{
			"raw_exec":    {Detected: true, Healthy: true},
			"mock_driver": {Detected: true, Healthy: true},
		},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

// AddNode registers a node made by Node.
func AddNode(n int, cpu, mem int64, change ...func(*berth.Node)) *state.RegisterNode {
	return &state.RegisterNode{Node: Node(n, cpu, mem, change...), Now: 1}
}

// Job decodes a job from JSON. A group without tasks gets one with the mock
// driver, named "task". A service without an update block is updated all at
// once, because most tests are not about deployments.
func Job(t testing.TB, text string) *berth.Job {
	t.Helper()
	tree, err := decode.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	groups, _ := tree["TaskGroups"].([]any)
	silent := (tree["Type"] == nil || tree["Type"] == berth.TypeService) && tree["Update"] == nil
	for _, g := range groups {
		group := g.(decode.Tree)
		silent = silent && group["Update"] == nil
		if group["Tasks"] == nil {
			group["Tasks"] = []any{decode.Tree{"Name": "task", "Driver": "mock_driver", "Resources": group["Resources"]}}
			delete(group, "Resources")
		}
	}
	if silent {
		tree["Update"] = decode.Tree{"MaxParallel": decode.Number("0")}
	}
	j, err := admit.DecodeJob(tree, admit.FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Register registers a job with an evaluation whose ID is made from eval.
func Register(j *berth.Job, eval int) *state.RegisterJob {
	return &state.RegisterJob{Job: j, Now: 1, Eval: state.EvalSeed{
		ID: ID[berth.Eval](eval), TriggeredBy: berth.TriggerJobRegister, Cause: berth.Cause{Kind: berth.CauseUser},
	}}
}
