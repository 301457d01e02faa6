package broker_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/leader/broker"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// plain is a queue without heaps and pointers: a list of evaluations, each
// with where it is, gone through anew for every question.
type plain struct {
	limits broker.Limits
	evals  map[berth.EvalID]*entry
	gone   map[berth.EvalID]bool // superseded, and not told yet
	failed map[berth.EvalID]bool // delivered too often, and not told yet
}

type entry struct {
	eval       *berth.Eval
	priority   int
	where      string // delayed, waits, held, failed
	at         time.Time
	deliveries int
	token      berth.Token
	applying   bool
}

func newPlain(l broker.Limits) *plain {
	return &plain{l, map[berth.EvalID]*entry{}, map[berth.EvalID]bool{}, map[berth.EvalID]bool{}}
}

func (p *plain) add(e *berth.Eval, now time.Time) {
	switch {
	case e.Terminal():
		delete(p.evals, e.ID)
	case p.evals[e.ID] != nil:
	case e.WaitUntil > now.UnixNano():
		p.evals[e.ID] = &entry{eval: e, priority: e.Priority, where: "delayed", at: time.Unix(0, e.WaitUntil)}
	default:
		p.evals[e.ID] = &entry{eval: e, priority: e.Priority, where: "waits"}
		p.settle()
	}
}

// settle leaves of those of a job that wait the newest, as urgent as the most
// urgent of them was.
func (p *plain) settle() {
	for _, a := range p.evals {
		for id, b := range p.evals {
			if a.where == "waits" && b.where == "waits" && a.eval.Key() == b.eval.Key() && older(b.eval, a.eval) {
				a.priority = max(a.priority, b.priority)
				p.gone[id] = true
				delete(p.evals, id)
			}
		}
	}
}

func older(a, b *berth.Eval) bool {
	if a.JobUID == b.JobUID && a.Status != b.Status { // what waited for room gives way
		return a.Status == berth.EvalBlocked
	}
	return cmp.Or(cmp.Compare(a.JobUID.Index, b.JobUID.Index), cmp.Compare(a.CreateIndex, b.CreateIndex)) < 0
}

func (p *plain) busy(k berth.JobKey) bool {
	for _, x := range p.evals {
		if x.where == "held" && x.eval.Key() == k {
			return true
		}
	}
	return false
}

// next returns the one that must be handed out, nil if none exists.
func (p *plain) next(types []string) (best *entry) {
	for _, x := range p.evals {
		if x.where != "waits" || p.busy(x.eval.Key()) || !slices.Contains(types, x.eval.Type) {
			continue
		}
		if best == nil || x.priority > best.priority || x.priority == best.priority && x.eval.CreateIndex < best.eval.CreateIndex {
			best = x
		}
	}
	return best
}

func (p *plain) giveBack(x *entry, now time.Time) {
	switch {
	case x.deliveries >= p.limits.Deliveries:
		x.where = "failed"
		p.failed[x.eval.ID] = true
		return
	case x.deliveries == 1:
		x.at = now.Add(p.limits.FirstNackDelay)
	default:
		x.at = now.Add(p.limits.NackDelay)
	}
	x.where, x.token, x.applying = "delayed", 0, false
}

func (p *plain) tick(now time.Time) (again time.Time) {
	for _, x := range p.evals {
		if x.where == "held" && !x.at.After(now) {
			p.giveBack(x, now)
		}
	}
	for _, x := range p.evals {
		if x.where == "delayed" && !x.at.After(now) {
			x.where = "waits"
		}
	}
	p.settle()
	for _, x := range p.evals {
		if (x.where == "held" || x.where == "delayed") && (again.IsZero() || x.at.Before(again)) {
			again = x.at
		}
	}
	return again
}

func (p *plain) quasi(id berth.EvalID) (status string, ok bool) {
	x := p.evals[id]
	switch {
	case x == nil:
		return "", false
	case x.where == "delayed":
		return "delayed", true
	case x.where == "held" && x.applying:
		return "applying", true
	case x.where == "held":
		return "scheduling", true
	}
	return "", true
}

// machine drives both queues with the same calls.
type machine struct {
	now     time.Time
	queue   *broker.Queue
	plain   *plain
	ids     []berth.EvalID
	evals   map[berth.EvalID]*berth.Eval
	tokens  []berth.Token
	created uint64
}

// Whatever is done to it, the queue does what the plain one does.
func TestQueueIsPlain(t *testing.T) {
	limits := broker.Limits{
		NackTimeout: 10 * time.Second, FirstNackDelay: time.Second, NackDelay: 5 * time.Second,
		Deliveries: 3, FollowUpAfter: time.Minute,
	}
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{
			now: time.Unix(1000, 0), queue: broker.NewQueue(limits), plain: newPlain(limits), evals: map[berth.EvalID]*berth.Eval{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": m.add, "end": m.end, "drop": m.drop, "next": m.next, "answer": m.answer, "extend": m.extend, "pass": m.pass,
			"": m.check,
		})
	})
}

var someTypes = []string{berth.TypeService, berth.TypeBatch}

func (m *machine) add(t *rapid.T) {
	if len(m.ids) > 0 && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
		e := m.evals[rapid.SampledFrom(m.ids).Draw(t, "known")]
		m.queue.Add(e, m.now)
		m.plain.add(e, m.now)
		return
	}
	m.created++
	e := &berth.Eval{
		ID: statetest.ID[berth.Eval](int(m.created)), Namespace: "default", JobID: berth.JobID(fmt.Sprint("j", rapid.IntRange(0, 3).Draw(t, "job"))),
		Type: rapid.SampledFrom(someTypes).Draw(t, "type"), Priority: rapid.IntRange(1, 3).Draw(t, "priority"),
		JobUID: berth.UID{Index: uint64(rapid.IntRange(1, 2).Draw(t, "life"))}, CreateIndex: m.created, Status: berth.EvalPending,
	}
	switch rapid.IntRange(0, 3).Draw(t, "delayed") {
	case 0:
		e.WaitUntil = m.now.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "wait")) * time.Second).UnixNano()
	case 1:
		e.Status = berth.EvalBlocked
	}
	m.ids = append(m.ids, e.ID)
	m.evals[e.ID] = e
	m.queue.Add(e, m.now)
	m.plain.add(e, m.now)
}

func (m *machine) some(t *rapid.T) berth.EvalID {
	if len(m.ids) == 0 {
		t.Skip("there is none yet")
	}
	return rapid.SampledFrom(m.ids).Draw(t, "eval")
}

func (m *machine) end(t *rapid.T) {
	e := *m.evals[m.some(t)]
	e.Status = berth.EvalCanceled
	m.queue.Add(&e, m.now)
	m.plain.add(&e, m.now)
}

func (m *machine) drop(t *rapid.T) {
	id := m.some(t)
	m.queue.Drop(id)
	delete(m.plain.evals, id)
}

func (m *machine) next(t *rapid.T) {
	types := rapid.SampledFrom([][]string{someTypes, someTypes[:1], someTypes[1:], {berth.TypeSystem}}).Draw(t, "types")
	most := rapid.IntRange(0, 3).Draw(t, "most")
	got := m.queue.Next(types, most, m.now)
	for i := range most {
		x := m.plain.next(types)
		if x == nil {
			if len(got) != i {
				t.Fatalf("%s was handed out, and nothing should be", evalName(got[i].Eval.ID))
			}
			return
		}
		if len(got) == i || got[i].Eval.ID != x.eval.ID {
			t.Fatalf("%s should be handed out as number %d of %v", evalName(x.eval.ID), i, got)
		}
		x.deliveries++
		if got[i].Count != x.deliveries || slices.Contains(m.tokens, got[i].Token) {
			t.Fatalf("delivery %d of %s as %+v", x.deliveries, evalName(x.eval.ID), got[i])
		}
		x.where, x.token, x.applying, x.at = "held", got[i].Token, false, m.now.Add(m.plain.limits.NackTimeout)
		m.tokens = append(m.tokens, x.token)
	}
}

// token draws the token that counts, or one that does not.
func (m *machine) token(t *rapid.T, id berth.EvalID) (token berth.Token, holds *entry) {
	x := m.plain.evals[id]
	if x != nil && x.where == "held" && rapid.IntRange(0, 3).Draw(t, "honest") > 0 {
		return x.token, x
	}
	token = rapid.SampledFrom(append(slices.Clone(m.tokens), 0)).Draw(t, "token")
	if x != nil && x.where == "held" && x.token == token {
		return token, x
	}
	return token, nil
}

func (m *machine) answer(t *rapid.T) {
	id := m.some(t)
	token, x := m.token(t, id)
	ack := rapid.Bool().Draw(t, "ack")
	_, there := m.plain.evals[id]
	var err error
	if ack {
		err = m.queue.Ack(id, token)
	} else {
		err = m.queue.Nack(id, token, m.now)
	}
	want := x != nil || ack && !there // one that ended is done
	if (err == nil) != want || err != nil && berth.KindOf(err) != berth.Conflict {
		t.Fatalf("ack %v of %s: %v", ack, evalName(id), err)
	}
	switch {
	case x != nil && ack:
		delete(m.plain.evals, id)
	case x != nil:
		m.plain.giveBack(x, m.now)
	}
}

func (m *machine) extend(t *rapid.T) {
	id := m.some(t)
	token, x := m.token(t, id)
	applying := rapid.Bool().Draw(t, "applying")
	if err := m.queue.Extend(id, token, applying, m.now); (err == nil) != (x != nil) {
		t.Fatalf("extend %s: %v", evalName(id), err)
	}
	if x != nil {
		x.at, x.applying = m.now.Add(m.plain.limits.NackTimeout), applying
	}
}

func (m *machine) pass(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
	if got, want := m.queue.Tick(m.now), m.plain.tick(m.now); !got.Equal(want) {
		t.Fatalf("the next time is %v, not %v", got, want)
	}
}

// check compares all that can be seen of the two.
func (m *machine) check(t *rapid.T) {
	where := map[string]int{}
	ready := map[string]int{}
	for _, x := range m.plain.evals {
		where[x.where]++
		if x.where == "waits" && !m.plain.busy(x.eval.Key()) {
			ready[x.eval.Type]++
			where[x.where]--
		}
	}
	s := m.queue.Stats()
	maps.DeleteFunc(s.Ready, func(_ string, n int) bool { return n == 0 })
	if !maps.Equal(s.Ready, ready) || s.Waiting != where["waits"] || s.Held != where["held"] || s.Delayed != where["delayed"] {
		t.Fatalf("the queue counts %+v, the plain one %v and %v ready", s, where, ready)
	}
	for _, id := range m.ids {
		q, ok := m.queue.Quasi(id)
		if status, there := m.plain.quasi(id); q.Status != status || ok != there {
			t.Fatalf("%s is %q %v, not %q %v", evalName(id), q.Status, ok, status, there)
		}
	}
	gone := map[berth.EvalID]bool{}
	for _, d := range m.queue.Dropped() {
		gone[d.Old] = true
		if d.Old == d.New || m.evals[d.Old].Key() != m.evals[d.New].Key() {
			t.Fatalf("%s is superseded by %s", evalName(d.Old), evalName(d.New))
		}
	}
	failed := map[berth.EvalID]bool{}
	for _, e := range m.queue.Failed() {
		failed[e.ID] = true
	}
	if !maps.Equal(gone, m.plain.gone) || !maps.Equal(failed, m.plain.failed) {
		t.Fatalf("gone %v, not %v; failed %v, not %v", gone, m.plain.gone, failed, m.plain.failed)
	}
	clear(m.plain.gone)
	clear(m.plain.failed)
}
