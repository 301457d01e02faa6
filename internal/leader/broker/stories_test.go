package broker_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/fit"
	"berth/internal/leader/broker"
	"berth/internal/state/statetest"
)

// teller plays stories about a queue and about what is blocked. Its lines are
//
//	add e2 job=web priority=80 type=batch wait=10s life=2   wait: due only then; life: of the job
//	    blocked                                             it waited for room until now
//	next 3 types=service,batch                              who is handed out
//	ack e1 · nack e1 · extend e1 [applying]                 with the token of its last delivery,
//	ack e1 as=1                                             or that of its first
//	end e1 · drop e1
//	after 10s                                               time passes; when the queue must be looked at next
//	show                                                    where everything is
//	block e1 decided=10 yes=c1,c2 no=c3 [escaped] [refused] waits for room, after a decision on state 10
//	                    lacks=cpu,memory,disk,ports,none    what it lacks: cpu if it does not say
//	                    type=stream                         of what it is: service if it does not say
//	freed c1 at=12 room=cpu,memory,disk,ports,node,pool     who that can help; all kinds if it does not say
//	due 1m                                                  who is tried again by then
type teller struct {
	t       *testing.T
	now     time.Time
	queue   *broker.Queue
	blocked *broker.Blocked
	tokens  map[string][]berth.Token
	evals   []string
	added   uint64
}

func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		tl := &teller{
			t: t, now: time.Unix(1000, 0), queue: broker.NewQueue(broker.DefaultLimits), blocked: broker.NewBlocked(),
			tokens: map[string][]berth.Token{},
		}
		return func(input string) string {
			var out strings.Builder
			for _, l := range statetest.Lines(t, input) {
				out.WriteString(tl.do(l))
				l.Done(t)
			}
			out.WriteString(tl.leavers())
			return out.String()
		}
	})
}

func (tl *teller) do(l *statetest.Line) string {
	id := func() berth.EvalID { return evalID(tl.t, l.Word(0)) }
	token := func() berth.Token {
		list := tl.tokens[l.Word(0)]
		n := l.Int(tl.t, "as", len(list))
		if n == 0 || n > len(list) {
			return 0
		}
		return list[n-1]
	}
	said := func(err error) string {
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(fmt.Sprintf("%s: %s: %v\n", l, berth.KindOf(err), err), id().String(), l.Word(0))
	}
	switch l.Verb {
	case "add":
		tl.queue.Add(tl.eval(l), tl.now)
	case "next":
		return tl.next(l)
	case "ack":
		return said(tl.queue.Ack(id(), token()))
	case "nack":
		return said(tl.queue.Nack(id(), token(), tl.now))
	case "extend":
		return said(tl.queue.Extend(id(), token(), l.Has("applying"), tl.now))
	case "end":
		tl.queue.Add(&berth.Eval{ID: id(), Status: berth.EvalComplete}, tl.now)
	case "drop":
		tl.queue.Drop(id())
	case "after":
		return tl.after(l)
	case "show":
		return tl.show()
	case "block":
		if !tl.blocked.Add(tl.blockedEval(l), tl.now.Add(time.Minute)) {
			return l.Word(0) + " missed something\n"
		}
	case "freed":
		return "helps " + names(tl.blocked.Freed(l.Word(0), tl.room(l), uint64(l.Int(tl.t, "at", 0)))) + "\n"
	case "due":
		d, err := time.ParseDuration(l.Word(0))
		if err != nil {
			tl.t.Fatalf("%s: %v", l, err)
		}
		list, again := tl.blocked.Due(tl.now.Add(d))
		if !again.IsZero() {
			return fmt.Sprintf("due %s, the next in %v\n", names(list), again.Sub(tl.now))
		}
		return "due " + names(list) + "\n"
	default:
		tl.t.Fatalf("%s: nobody knows how to %s", l, l.Verb)
	}
	return ""
}

func evalID(t testing.TB, name string) berth.EvalID {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "e"))
	if err != nil {
		t.Fatalf("%q does not name an evaluation; e7 would", name)
	}
	return statetest.ID[berth.Eval](n)
}

func evalName(id berth.EvalID) string {
	hi, _ := id.Words()
	return "e" + strconv.Itoa(int(hi>>32))
}

func names(list []*berth.Eval) string {
	if len(list) == 0 {
		return "nobody"
	}
	var out []string
	for _, e := range list {
		out = append(out, evalName(e.ID))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (tl *teller) eval(l *statetest.Line) *berth.Eval {
	tl.added++
	tl.evals = append(tl.evals, l.Word(0))
	e := &berth.Eval{
		ID: evalID(tl.t, l.Word(0)), Namespace: l.Text("ns", berth.DefaultNamespace), JobID: berth.JobID(l.Text("job", "web")),
		Type: l.Text("type", berth.TypeService), Priority: l.Int(tl.t, "priority", 50), Status: berth.EvalPending,
		CreateIndex: tl.added, JobUID: berth.UID{Index: uint64(l.Int(tl.t, "life", 1))},
	}
	if w := l.Duration(tl.t, "wait", 0); w != 0 {
		e.WaitUntil = tl.now.Add(w).UnixNano()
	}
	if l.Has("blocked") {
		e.Status = berth.EvalBlocked
	}
	return e
}

func (tl *teller) blockedEval(l *statetest.Line) *berth.Eval {
	e := &berth.Eval{
		ID: evalID(tl.t, l.Word(0)), Namespace: berth.DefaultNamespace, JobID: "web", Type: l.Text("type", berth.TypeService), Status: berth.EvalBlocked,
		SnapshotIndex: uint64(l.Int(tl.t, "decided", 0)), Missed: &berth.Missed{Escaped: l.Has("escaped"), Classes: map[string]bool{}},
	}
	if l.Has("refused") {
		e.Missed.Escaped = true
	}
	lacks := l.List("lacks")
	if lacks == nil {
		lacks = []string{"cpu"}
	}
	for _, d := range lacks {
		if d == "ports" {
			d = fit.DimDynamic
		}
		if d != "none" {
			e.Missed.Dimensions = append(e.Missed.Dimensions, d)
		}
	}
	for _, c := range l.List("yes") {
		e.Missed.Classes[c] = true
	}
	for _, c := range l.List("no") {
		e.Missed.Classes[c] = false
	}
	return e
}

// room is what kinds of room come free: all if it does not say.
func (tl *teller) room(l *statetest.Line) (r broker.Capacity) {
	kinds := map[string]broker.Capacity{
		"cpu": broker.CapacityCPU, "memory": broker.CapacityMemory, "disk": broker.CapacityDisk, "ports": broker.CapacityPorts, "node": broker.CapacityNode,
		"cores": broker.CapacityCores, "devices": broker.CapacityDevices, "pool": broker.CapacityPool,
	}
	for _, k := range l.List("room") {
		r |= kinds[k]
	}
	return cmp.Or(r, broker.CapacityAll)
}

func (tl *teller) next(l *statetest.Line) string {
	most := 1
	if w := l.Word(0); w != "" {
		most, _ = strconv.Atoi(w)
	}
	types := l.List("types")
	if types == nil {
		types = []string{berth.TypeService}
	}
	list := tl.queue.Next(types, most, tl.now)
	if len(list) == 0 {
		return "nobody\n"
	}
	var out []string
	for _, d := range list {
		name := evalName(d.Eval.ID)
		tl.tokens[name] = append(tl.tokens[name], d.Token)
		if d.Count > 1 {
			name += fmt.Sprintf("(%d. time)", d.Count)
		}
		out = append(out, name)
	}
	return strings.Join(out, " ") + "\n"
}

func (tl *teller) after(l *statetest.Line) string {
	d, err := time.ParseDuration(l.Word(0))
	if err != nil {
		tl.t.Fatalf("%s: %v", l, err)
	}
	tl.now = tl.now.Add(d)
	if again := tl.queue.Tick(tl.now); !again.IsZero() {
		return fmt.Sprintf("again in %v\n", again.Sub(tl.now))
	}
	return ""
}

func (tl *teller) show() string {
	var out strings.Builder
	for _, name := range tl.evals {
		q, ok := tl.queue.Quasi(evalID(tl.t, name))
		where := q.Status
		switch {
		case !ok:
			where = "gone"
		case where == "":
			where = "waits"
		}
		fmt.Fprintf(&out, "%s %s\n", name, where)
	}
	return out.String()
}

// leavers tells of evaluations that the queue gave up in a step.
func (tl *teller) leavers() string {
	var out strings.Builder
	for _, d := range tl.queue.Dropped() {
		fmt.Fprintf(&out, "%s is superseded by %s\n", evalName(d.Old), evalName(d.New))
	}
	for _, e := range tl.queue.Failed() {
		fmt.Fprintf(&out, "%s failed, %v ago\n", evalName(e.ID), tl.now.Sub(e.At))
	}
	return out.String()
}
