package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/admit"
	"berth/internal/consensus"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"github.com/hashicorp/raft"
)

// server is one server's part in the cluster, over TCP.
type server struct {
	*consensus.Server
	id, dir, address string
	store            *state.Store
	received         *atomic.Int64 // bytes that came from others
	terms            chan consensus.Term
	stop             context.CancelFunc
	ended            chan error
}

// start starts a server on its folder below dir.
func start(ctx context.Context, dir, id, address string) (*server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &server{
		id: id, dir: filepath.Join(dir, id), address: l.Addr().String(), store: state.New(),
		received: &atomic.Int64{}, terms: make(chan consensus.Term, 1), ended: make(chan error, 1),
	}
	s.Server, err = consensus.Open(consensus.Config{
		Dir: s.dir, ID: id, Logger: logger, Transport: consensus.NewTransport(&layer{l, s.received}, logger),
		SnapshotEvery: 1 << 30, // when it is asked for
	}, s.store)
	if err != nil {
		return nil, err
	}
	ctx, s.stop = context.WithCancel(ctx)
	go func() {
		s.ended <- s.Run(ctx, func(ctx context.Context, t consensus.Term) error {
			select {
			case s.terms <- t:
			default:
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	return s, nil
}

// leading waits until the server leads and returns its term.
func (s *server) leading(ctx context.Context) (consensus.Term, error) {
	select {
	case t := <-s.terms:
		return t, nil
	case err := <-s.ended:
		return consensus.Term{}, fmt.Errorf("server %s has ended: %w", s.id, err)
	case <-ctx.Done():
		return consensus.Term{}, ctx.Err()
	}
}

// close stops the server and waits for it to end.
func (s *server) close() error {
	s.stop()
	if err := <-s.ended; err != nil && err != context.Canceled {
		return err
	}
	return nil
}

// layer is a raft.StreamLayer over TCP that counts the bytes received.
type layer struct {
	net.Listener
	received *atomic.Int64
}

// Accept implements net.Listener. What arrives on the connection is counted.
func (l *layer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &counted{c, l.received}, nil
}

// Dial implements raft.StreamLayer.
func (l *layer) Dial(a raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", string(a), timeout)
}

// counted is a connection that counts what arrives on it.
type counted struct {
	net.Conn
	received *atomic.Int64
}

// Read implements io.Reader and counts the bytes.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// fill creates nodes and jobs of 1,000 allocations and reports all of them as
// running.
func (s *server) fill(ctx context.Context, jobs, nodes int) error {
	term, err := s.leading(ctx)
	if err != nil {
		return err
	}
	now := time.Now().UnixNano()
	room := func(n *berth.Node) { n.NodeResources.Disk.DiskMB = 1 << 30 }
	var adds []state.Command
	for n := range nodes {
		adds = append(adds, statetest.AddNode(n+1, 10_000_000, 10_000_000, room))
	}
	for some := range slices.Chunk(adds, 500) {
		if _, err := term.Log.Propose(ctx, some...); err != nil {
			return err
		}
	}
	for j := range jobs {
		job, err := admit.ParseJob([]byte(fmt.Sprintf(`{"ID":"job-%d","Type":"batch","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Count":1000,
			"Tasks":[{"Name":"task","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`, j)))
		if err != nil {
			return err
		}
		if _, err := term.Log.Propose(ctx, statetest.Register(job, j+1), plan(j+1, nodes, now)); err != nil {
			return err
		}
	}
	reports := map[berth.NodeID]*state.ReportAllocs{}
	for a := range s.store.Snapshot().Allocs() {
		r := reports[a.NodeID]
		if r == nil {
			r = &state.ReportAllocs{Node: a.NodeID, Now: now}
			reports[a.NodeID] = r
		}
		r.Updates = append(r.Updates, runs(a.ID, time.Unix(0, now)))
	}
	for _, r := range reports {
		if _, err := term.Log.Propose(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// plan spreads a job over the nodes, as schedulers would.
func plan(eval, nodes int, now int64) *state.ApplyPlan {
	c := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](eval), Now: now, End: &state.EvalEnd{Status: berth.EvalComplete}}
	for i := range 1000 {
		c.Place = append(c.Place, berth.Placement{Index: uint32(i), NodeID: statetest.ID[berth.Node]((eval*997+i*7919)%nodes + 1), Score: 0.7312})
	}
	return c
}

// runs is the report of an agent that started a task.
func runs(id berth.AllocID, at time.Time) state.AllocUpdate {
	return state.AllocUpdate{ID: id, Client: berth.ClientRunning, Tasks: state.PackTaskStates(map[string]*berth.TaskState{"task": {
		State: berth.TaskRunning, StartedAt: at,
		Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventReceived, at), berth.NewTaskEvent(berth.EventStarted, at)},
	}})}
}

// allocations returns how many allocations s has.
func allocations(s *state.Snapshot) int { return s.Count(state.Allocs) }
