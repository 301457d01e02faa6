package events

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/eventually"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// rows are a copy of the tables: what each row's ModifyIndex is.
type rows map[string]uint64

func (r rows) put(topic Topic, key string, index uint64) { r[string(topic)+" "+key] = index }

// apply makes of a copy what an event says.
func (r rows) apply(e *Event, index uint64) {
	name := string(e.Topic) + " " + e.Namespace() + "/" + e.Key()
	if e.Deleted {
		delete(r, name)
	} else {
		r[name] = index
	}
}

func rowsOf(s *state.Snapshot) rows {
	r := rows{}
	for j := range s.Jobs(berth.AllNamespaces, "") {
		r.put(Job, j.Namespace+"/"+string(j.ID), j.ModifyIndex)
	}
	for e := range s.Evals() {
		r.put(Evaluation, e.Namespace+"/"+e.ID.String(), e.ModifyIndex)
	}
	for a := range s.Allocs() {
		r.put(Allocation, a.Job.Namespace+"/"+a.ID.String(), a.ModifyIndex)
	}
	for d := range s.Deployments() {
		r.put(Deployment, d.Namespace+"/"+d.ID.String(), d.ModifyIndex)
	}
	for n := range s.Nodes() {
		r.put(Node, "/"+n.ID.String(), n.ModifyIndex)
	}
	for v := range s.Services() {
		r.put(Service, v.Namespace+"/"+v.ID, v.ModifyIndex)
	}
	for p := range s.NodePools() {
		if !berth.BuiltIn(p.Name) { // those were there before any event
			r.put(NodePool, "/"+p.Name, p.ModifyIndex)
		}
	}
	for row := range s.StreamJobs() {
		if j := s.Job(row.Key); j != nil && j.UID == row.UID {
			r.put(Resource, j.Namespace+"/"+j.UID.Text('j'), max(j.ModifyIndex, row.ModifyIndex))
		}
	}
	for v := range s.HostVolumes() {
		r.put(HostVolume, v.Namespace+"/"+v.ID, v.ModifyIndex)
	}
	for t := range s.ACLTokens() {
		r.put(ACLToken, "/"+t.AccessorID, t.ModifyIndex)
	}
	for p := range s.ACLPolicies() {
		r.put(ACLPolicy, "/"+p.Name, p.ModifyIndex)
	}
	for x := range s.ACLRoles() {
		r.put(ACLRole, "/"+x.ID, x.ModifyIndex)
	}
	for m := range s.AuthMethods() {
		r.put(ACLAuthMethod, "/"+m.Name, m.ModifyIndex)
	}
	for x := range s.BindingRules() {
		r.put(ACLBindingRule, "/"+x.ID, x.ModifyIndex)
	}
	for v := range s.Variables() {
		if v.Namespace != "" {
			r.put(Variable, v.Namespace+"/"+v.Path, v.ModifyIndex)
		}
	}
	if c := s.SchedulerConfig(); c.ModifyIndex > 0 {
		r.put(Operator, "/scheduler", c.ModifyIndex)
	}
	for o := range s.Resources() {
		r.put(Resource, o.Job.Namespace+"/"+o.UID.Text(berth.KindLetter(o.Kind)), o.ModifyIndex)
	}
	return r
}

// read returns all that a reader gets without waiting.
func read(r *Reader) (out []*Set, err error) {
	for {
		sets, more, err := r.take()
		if err != nil || more != nil {
			return out, err
		}
		out = append(out, sets...)
	}
}

// Whatever happens, in commits of whatever size: who reads all events has a
// copy of the tables, index by index; and who begins at any index gets exactly
// what is there from it on, or is told that some of it is gone, which is true.
func TestEventsLeadToTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var draw statetest.Random
		store := state.New()
		all := New(store, Limits{Sets: 1 << 20, Bytes: 1 << 40})
		few := New(store, Limits{Sets: rapid.IntRange(1, 12).Draw(t, "kept")})
		light := New(store, Limits{Bytes: rapid.IntRange(1, 60000).Draw(t, "bytes")})
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			tx := state.Begin(store.Snapshot())
			for range rapid.IntRange(1, 6).Draw(t, "commands") {
				tx.Apply(draw.Command(t, tx.Snapshot))
			}
			store.Publish(tx.End())
			for _, b := range []*Buffer{all, few, light} {
				b.follow(store.Commit())
			}
		}
		whole, err := all.From(0)
		if err != nil {
			t.Fatal(err)
		}
		list, err := read(whole)
		whole.Close()
		if err != nil {
			t.Fatal(err)
		}
		copied := rows{}
		for i, s := range list {
			if i > 0 && s.Index <= list[i-1].Index || s.Index > store.Snapshot().Index || len(s.Events) == 0 {
				t.Fatalf("set %d has index %d and %d events", i, s.Index, len(s.Events))
			}
			for k := range s.Events {
				copied.apply(&s.Events[k], s.Index)
				if e := &s.Events[k]; e.Topic == Resource && e.Cause() == "" {
					t.Fatalf("%s %s of command %d has no cause", e.Topic, e.Type, e.by)
				}
			}
		}
		if want := rowsOf(store.Snapshot()); fmt.Sprint(copied) != fmt.Sprint(want) {
			t.Fatalf("the events lead to\n%v\nthe state is\n%v", copied, want)
		}
		for _, b := range []*Buffer{all, few, light} {
			kept := list[len(list)-len(b.sets):] // of the same commits, so they are alike
			last := uint64(0)                    // the newest that is gone
			if n := len(list) - len(kept); n > 0 {
				last = list[n-1].Index
			}
			for index := range store.Snapshot().Index + 3 {
				r, err := b.From(index)
				if gap, ok := errors.AsType[*Gap](err); ok {
					if index == 0 || index > last || gap.Oldest != last+1 || gap.Wanted != index {
						t.Fatalf("from %d: %v; the newest that is gone is %d", index, err, last)
					}
					continue
				}
				if err != nil || index > 0 && index <= last {
					t.Fatalf("from %d: %v; the newest that is gone is %d", index, err, last)
				}
				got, err := read(r)
				r.Close()
				want := kept
				for len(want) > 0 && want[0].Index < index {
					want = want[1:]
				}
				if err != nil || !slices.EqualFunc(got, want, func(a, b *Set) bool { return a.Index == b.Index && len(a.Events) == len(b.Events) }) {
					t.Fatalf("from %d: %d sets, %v; wanted are %d", index, len(got), err, len(want))
				}
			}
			if s := b.Stats(); s.Readers != 0 || len(b.sets) > b.limits.Sets || b.weight > b.limits.Bytes && len(b.sets) > 1 {
				t.Fatalf("the buffer is %+v", s)
			}
		}
	})
}

// busy returns a store whose node 1 is noted something of with each commit.
func busy(t testing.TB) (store *state.Store, commit func()) {
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000))
	id := statetest.ID[berth.Node](1)
	return store, func() {
		log.Must(t, &state.AddNodeEvents{ID: id, Events: []berth.NodeEvent{{Message: "hello"}}})
	}
}

// begin runs a buffer until the returned function is called.
func begin(t testing.TB, b *Buffer) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// One who does not read holds nothing up and nothing fast: the buffer goes on
// within its limits, and he is told that he fell behind.
func TestASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, commit := busy(t)
		b := New(store, Limits{Sets: 10})
		defer begin(t, b)()
		r, err := b.From(0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		commit()
		if sets, err := r.Next(t.Context()); err != nil || len(sets) != 1 || sets[0].Index != 3 {
			t.Fatal(sets, err)
		}
		for range 10 {
			commit()
		}
		synctest.Wait()
		if sets, err := r.Next(t.Context()); err != nil || len(sets) != 10 { // just in time
			t.Fatal(len(sets), err)
		}
		for range 11 {
			commit()
		}
		synctest.Wait()
		_, err = r.Next(t.Context())
		gap, ok := errors.AsType[*Gap](err)
		if !ok || gap.Oldest != 15 || b.Stats().Sets != 10 {
			t.Errorf("%v; the buffer is %+v", err, b.Stats())
		}
		if again, err := b.From(gap.Oldest); err != nil {
			t.Error(err)
		} else {
			sets, err := again.Next(t.Context())
			if err != nil || sets[0].Index != 15 {
				t.Errorf("from the oldest on: %v %v", sets, err)
			}
		}
	})
}

// Who waits is woken by what comes, by the end of his patience, and by the end
// of the buffer.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, commit := busy(t)
		b := New(store, Limits{})
		stop := begin(t, b)
		r, err := b.From(1 << 40) // from now on
		if err != nil {
			t.Fatal(err)
		}
		type answer struct {
			sets []*Set
			err  error
		}
		answers := make(chan answer, 1)
		next := func(ctx context.Context) {
			go func() {
				sets, err := r.Next(ctx)
				answers <- answer{sets, err}
			}()
			synctest.Wait()
		}
		next(t.Context())
		commit()
		if a := <-answers; a.err != nil || len(a.sets) != 1 || a.sets[0].Index != 3 {
			t.Fatal(a)
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		next(brief)
		if a := <-answers; !errors.Is(a.err, context.DeadlineExceeded) {
			t.Fatal(a)
		}
		next(t.Context())
		stop()
		if a := <-answers; !errors.Is(a.err, ErrClosed) {
			t.Fatal(a)
		}
		if _, err := b.From(0); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A state that is replaced as a whole is a gap for all, also for those who had
// read everything.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, commit := busy(t)
		b := New(store, Limits{})
		defer begin(t, b)()
		commit()
		synctest.Wait()
		behind, _ := b.From(0)
		done, _ := b.From(1 << 40)
		waiting := make(chan error, 1)
		go func() {
			_, err := done.Next(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		store.Reset(store.Snapshot())
		synctest.Wait()
		_, err := behind.Next(t.Context())
		for _, err := range []error{err, <-waiting} {
			if gap, ok := errors.AsType[*Gap](err); !ok || gap.Oldest != 4 {
				t.Error(err)
			}
		}
		if _, err := b.From(3); err == nil {
			t.Error("what happened before is still there")
		}
		fresh, err := b.From(4)
		if err != nil {
			t.Fatal(err)
		}
		if again := New(store, Limits{}); again.since != 3 { // as after a restart
			t.Errorf("a buffer of a state at index 3 begins after %d", again.since)
		}
		_ = fresh
	})
}

// The buffer takes in commits later than the store; who asks in between for
// what he has seen done gets no more than that.
func TestBehindTheStore(t *testing.T) {
	store, commit := busy(t)
	b := New(store, Limits{}) // which nobody runs yet
	commit()
	commit()
	commit() // index 5
	r, err := b.From(4)
	if err != nil {
		t.Fatal(err)
	}
	for c := b.commits.TryNext(); c != nil; c = b.commits.TryNext() {
		b.follow(c)
	}
	if sets, err := read(r); err != nil || len(sets) != 2 || sets[0].Index != 4 {
		t.Errorf("%d sets, %v", len(sets), err)
	}
}

// An encoding is made once where several read, is weighed, and is not kept for
// one reader, nor of what is gone.
func TestEncodings(t *testing.T) {
	store, commit := busy(t)
	b := New(store, Limits{Bytes: 20000})
	made := 0
	encode := func(*Set, *Event) ([]byte, error) { made++; return make([]byte, 1000), nil }
	commit()
	b.follow(store.Commit())
	one, _ := b.From(0)
	sets, _ := read(one)
	s, e := sets[0], &sets[0].Events[0]
	before := b.Stats().Bytes
	one.Encoded(s, e, encode)
	one.Encoded(s, e, encode)
	if made != 2 || b.Stats().Bytes != before {
		t.Errorf("for one reader: made %d times, the buffer has %d bytes", made, b.Stats().Bytes)
	}
	other, _ := b.From(0)
	other.Encoded(s, e, encode)
	one.Encoded(s, e, encode)
	if made != 3 || b.Stats().Bytes != before+1000 {
		t.Errorf("for two readers: made %d times, the buffer has %d bytes", made, b.Stats().Bytes)
	}
	for range 20 {
		commit()
		b.follow(store.Commit())
	}
	if b.Stats().Bytes > 20000 {
		t.Errorf("the buffer has %d bytes", b.Stats().Bytes)
	}
	sets[0].Events[0].encoded.Store(nil) // gone from the buffer
	before = b.Stats().Bytes
	other.Encoded(s, e, encode)
	if b.Stats().Bytes != before || e.encoded.Load() != nil {
		t.Error("what is gone is kept")
	}
	b.reset(store.Commit())
	if n := b.Stats().Bytes; n != 0 {
		t.Errorf("an empty buffer has %d bytes", n)
	}
}

// Many read while commits come: all get the same, in order, without a hole.
func TestManyReaders(t *testing.T) {
	store, commit := busy(t)
	b := New(store, Limits{})
	defer begin(t, b)()
	const commits = 500
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r, err := b.From(3)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			want := uint64(3)
			for want < 3+commits {
				sets, err := r.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for _, s := range sets {
					if s.Index != want {
						t.Errorf("index %d; wanted is %d", s.Index, want)
						return
					}
					text, _ := r.Encoded(s, &s.Events[0], func(s *Set, _ *Event) ([]byte, error) { return fmt.Append(nil, s.Index), nil })
					if string(text) != fmt.Sprint(want) {
						t.Errorf("of index %d: %s", want, text)
					}
					want++
				}
			}
		})
	}
	for range commits {
		commit()
	}
	all.Wait()
}

// What a buffer and its readers let go is freed: nothing holds the list of
// commits or old states.
func TestNothingIsHeld(t *testing.T) {
	store, commit := busy(t)
	b := New(store, Limits{Sets: 4})
	stop := begin(t, b)
	defer stop()
	r, err := b.From(0)
	if err != nil {
		t.Fatal(err)
	}
	freed := make(chan struct{})
	commit()
	runtime.AddCleanup(store.Commit(), func(ch chan struct{}) { close(ch) }, freed)
	for range 20 {
		commit()
	}
	for deadline := time.Now().Add(eventually.Limit); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
		default:
			if time.Now().Before(deadline) {
				continue
			}
			t.Error("an old commit is still there")
		}
		break
	}
	r.Close()
}

func TestTypes(t *testing.T) {
	plan, report, other := applyPlan, reportAllocs, state.NumberOf(&state.StopJob{})
	alloc := &berth.Alloc{Job: &berth.Job{}}
	in, out := &berth.Node{SchedulingEligibility: berth.NodeEligible}, &berth.Node{SchedulingEligibility: berth.NodeIneligible}
	for _, c := range []struct {
		change state.Change
		topic  Topic
		want   string
	}{
		{state.Change{By: plan, New: alloc}, Allocation, PlanResult},
		{state.Change{By: plan, Old: alloc, New: alloc}, Allocation, PlanResult},
		{state.Change{By: report, Old: alloc, New: alloc}, Allocation, AllocationUpdated},
		{state.Change{By: other, Old: alloc, New: alloc}, Allocation, AllocationUpdateDesiredStatus},
		{state.Change{By: other, New: alloc}, Allocation, AllocationCreated},
		{state.Change{By: other, Old: alloc}, Allocation, AllocationDeleted},
		{state.Change{By: plan, New: &berth.Deployment{}}, Deployment, PlanResult},
		{state.Change{By: other, New: &berth.Deployment{}}, Deployment, DeploymentStatusUpdate},
		{state.Change{By: other, Old: &berth.Deployment{}}, Deployment, DeploymentDeleted},
		{state.Change{By: other, Old: in, New: out}, Node, NodeEligibility},
		{state.Change{By: registerNode, Old: in, New: out}, Node, NodeRegistration},
		{state.Change{By: other, New: in}, Node, NodeRegistration},
		{state.Change{By: other, Old: in, New: in}, Node, NodeEvent},
		{state.Change{By: other, Old: in}, Node, NodeDeregistration},
		{state.Change{By: other, New: &berth.Job{Stop: true}}, Job, JobDeregistered},
		{state.Change{By: registerJob, New: &berth.Job{}}, Job, JobRegistered},
		{state.Change{By: deleteJob, New: &berth.Job{Stop: true}}, Job, JobDeleting},
		{state.Change{By: deleteJob, Old: &berth.Job{Stop: true}}, Job, JobDeregistered},
		{state.Change{By: deleteJob, Old: alloc, New: &berth.Alloc{Orphaned: true}}, Allocation, AllocationUpdated},
		{state.Change{By: other, Old: &berth.Job{}}, Job, JobDeregistered},
		{state.Change{By: other, Old: &berth.Eval{}}, Evaluation, EvaluationDeleted},
	} {
		var e Event
		describe(&e, &c.change)
		if e.Topic != c.topic || e.Type != c.want || e.Deleted != (c.change.New == nil) || e.Row == nil {
			t.Errorf("%+v: %s %s; wanted are %s %s", c.change, e.Topic, e.Type, c.topic, c.want)
		}
	}
}

// After a burst, events that are older than 30 s give their memory back, down to
// what old events may have. Younger ones are kept, and readers are told what is
// gone.
func TestTheMemoryOfABurstIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, commit := busy(t)
		b := New(store, Limits{Old: 1})
		defer begin(t, b)()
		for range 100 {
			commit()
		}
		synctest.Wait()
		all := b.Stats()
		b.mu.Lock()
		b.limits.Old = all.Bytes / 4
		b.mu.Unlock()
		time.Sleep(OldAge - agePace)
		synctest.Wait()
		if s := b.Stats(); s.Sets != 100 {
			t.Fatalf("of 100 commands %d are left before they are old", s.Sets)
		}
		for range 10 {
			commit()
		}
		time.Sleep(3 * agePace)
		synctest.Wait()
		s := b.Stats()
		if old := s.Sets - 10; old <= 0 || s.Bytes > all.Bytes/4+all.Bytes/10+1000 {
			t.Errorf("of %d bytes %d are left, of 100 old commands %d", all.Bytes, s.Bytes, old)
		}
		if _, err := b.From(2); err == nil {
			t.Error("events that are gone can be read")
		}
		r, err := b.From(s.Since + 1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if sets, err := read(r); err != nil || len(sets) != s.Sets {
			t.Errorf("%d commands are kept, %d can be read: %v", s.Sets, len(sets), err)
		}
		time.Sleep(time.Hour) // the rest may stay: nothing looks for it in vain
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.aging != nil || b.weight > b.limits.Old || len(b.sets) == 0 {
			t.Errorf("%d commands with %d bytes are left, a timer runs: %v", len(b.sets), b.weight, b.aging != nil)
		}
	})
}
