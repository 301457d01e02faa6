// Command propose compares two ways for a leader to take commands: to carry
// them out first and log what came of it, as package consensus does, and to
// log them first and carry them out when they commit, as is usual with raft.
// Log, disk, state and commands are the same. The page
// docs/decisions/0003-execute-then-log.md holds what it printed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"berth"
	"berth/internal/consensus"
	"berth/internal/consensus/logstore"
	"berth/internal/state"
	"berth/internal/state/codec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// way is one way for a leader to handle commands.
type way interface {
	// run calls f while there is a leader.
	run(dir string, f func(propose func(state.Command) error, entries func() (n, bytes uint64))) error
}

// ways are the ways to propose that are compared.
var ways = []struct {
	name string
	way
}{
	{"execute, then log", ours{}},
	{"log, then execute", usual{}},
	{"the same, in batches", usual{batch: true}},
}

// main measures each way to propose with 1, 16 and 256 callers.
func main() {
	seconds := flag.Float64("seconds", 3, "how long each row runs")
	flag.Parse()
	fmt.Printf("%-22s %8s %10s %9s %9s %9s %11s\n", "", "callers", "commands/s", "p50 µs", "p99 µs", "per entry", "log B each")
	for _, callers := range []int{1, 16, 256} {
		for _, w := range ways {
			dir, err := os.MkdirTemp("", "propose")
			if err != nil {
				log.Fatal(err)
			}
			err = w.run(dir, func(propose func(state.Command) error, entries func() (uint64, uint64)) {
				measure(w.name, callers, time.Duration(*seconds*float64(time.Second)), propose, entries)
			})
			os.RemoveAll(dir)
			if err != nil {
				log.Fatal(err)
			}
		}
	}
}

// measure proposes for the time d from as many callers at once and prints a
// row. entries returns the log's last index and its size in bytes.
func measure(name string, callers int, d time.Duration, propose func(state.Command) error, entries func() (uint64, uint64)) {
	for n := range 1000 { // the nodes are there before the clock starts
		if err := propose(register(n)); err != nil {
			log.Fatal(err)
		}
	}
	before, bytes := entries()
	took := make([][]time.Duration, callers)
	start := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := c; time.Since(start) < d; n++ {
				at := time.Now()
				if err := propose(register(n % 1000)); err != nil {
					log.Fatal(err)
				}
				took[c] = append(took[c], time.Since(at))
			}
		})
	}
	wg.Wait()
	ran := time.Since(start)
	after, more := entries()
	all := slices.Concat(took...)
	slices.Sort(all)
	micros := func(p int) float64 { return float64(all[len(all)*p/100].Nanoseconds()) / 1e3 }
	fmt.Printf("%-22s %8d %10.0f %9.0f %9.0f %9.1f %11.0f\n", name, callers, float64(len(all))/ran.Seconds(), micros(50), micros(99),
		float64(len(all))/float64(after-before), float64(more-bytes)/float64(len(all)))
}

// register is the command of the measurement: a node registers again.
func register(n int) *state.RegisterNode {
	node := &berth.Node{
		SecretID: fmt.Sprint("secret", n), Name: fmt.Sprint("n", n), Datacenter: "dc1", NodePool: berth.DefaultNodePool,
		Status: berth.NodeReady, SchedulingEligibility: berth.NodeEligible,
		Attributes: map[string]string{"kernel.name": "linux", "unique.hostname": fmt.Sprint("n", n)},
		NodeResources: &berth.NodeResources{
			Cpu: berth.NodeCpuResources{CpuShares: 4000}, Memory: berth.NodeMemoryResources{MemoryMB: 4000}, Disk: berth.NodeDiskResources{DiskMB: 1 << 20},
		},
		ReservedResources: &berth.NodeReservedResources{},
		Drivers:           map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
	}
	node.ID[0], node.ID[1], node.ID[15] = byte(n), byte(n>>8), 1
	return &state.RegisterNode{Node: node, Now: 1}
}

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

// ours is package consensus.
type ours struct{}

// run calls f with a leader of Berth's consensus package.
func (ours) run(dir string, f func(func(state.Command) error, func() (uint64, uint64))) error {
	s, err := consensus.Open(consensus.Config{Dir: dir, ID: "s1", Logger: silent}, state.New())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	err = s.Run(ctx, func(ctx context.Context, term consensus.Term) error {
		f(func(c state.Command) error {
			_, err := term.Log.Propose(ctx, c)
			return err
		}, func() (uint64, uint64) { x := s.Stats(); return x.LastIndex, x.Appended })
		stop()
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// usual is raft used as its documentation suggests: one entry for each command,
// applied after its commit. batch uses the library's support for batches.
type usual struct{ batch bool }

// run calls f with a Raft node that is used as its library suggests: one entry
// for each command.
func (u usual) run(dir string, f func(func(state.Command) error, func() (uint64, uint64))) error {
	store, err := logstore.Open(filepath.Join(dir, "log"), logstore.Options{Logger: silent})
	if err != nil {
		return err
	}
	defer store.Close()
	conf := raft.DefaultConfig()
	conf.LocalID = "s1"
	conf.Logger = hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	conf.CommitTimeout = 5 * time.Millisecond
	var machine raft.FSM = &fsm{store: state.New()}
	if u.batch {
		conf.BatchApplyCh, conf.MaxAppendEntries = true, 1024
		machine = &batching{fsm{store: state.New()}}
	}
	addr, transport := raft.NewInmemTransport("s1")
	snaps := raft.NewInmemSnapshotStore()
	self := raft.Configuration{Servers: []raft.Server{{ID: conf.LocalID, Address: addr}}}
	if err := raft.BootstrapCluster(conf, store, store, snaps, transport, self); err != nil {
		return err
	}
	r, err := raft.NewRaft(conf, machine, store, store, snaps, transport)
	if err != nil {
		return err
	}
	for r.State() != raft.Leader {
		time.Sleep(time.Millisecond)
	}
	f(func(c state.Command) error {
		future := r.Apply(codec.EncodeEntry(state.AppendCommand(nil, c)), 30*time.Second)
		if err := future.Error(); err != nil {
			return err
		}
		err, _ := future.Response().(error)
		return err
	}, func() (uint64, uint64) { appended, _, _ := store.Bytes(); return r.LastIndex(), appended })
	return r.Shutdown().Error()
}

// fsm applies entries the usual way: after they are committed, on every server.
type fsm struct{ store *state.Store }

// Apply implements raft.FSM.
func (m *fsm) Apply(l *raft.Log) any {
	tx := state.Begin(m.store.Snapshot())
	err := carryOut(tx, l)
	m.store.Publish(tx.End())
	return err
}

// carryOut applies the commands of an entry. The first refusal is an error.
func carryOut(tx *state.Tx, l *raft.Log) error {
	cmds, err := state.DecodeEntry(l.Data)
	if err != nil {
		return err
	}
	for _, c := range cmds {
		if r := tx.Apply(c); r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// Snapshot is not supported: no run is long enough for one.
func (m *fsm) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("not here") }

// Restore is not supported.
func (m *fsm) Restore(io.ReadCloser) error { return errors.New("not here") }

// batching publishes once for all entries that committed together.
type batching struct{ fsm }

// ApplyBatch implements raft.BatchingFSM.
func (m *batching) ApplyBatch(list []*raft.Log) []any {
	out := make([]any, len(list))
	tx := state.Begin(m.store.Snapshot())
	for i, l := range list {
		if l.Type == raft.LogCommand {
			out[i] = carryOut(tx, l)
		}
	}
	m.store.Publish(tx.End())
	return out
}
