package alloc

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/task"
)

// group reads "init:prestart=dead proxy:prestart+=up app=pending clean:poststop=pending";
// + is a sidecar, ! a leader.
func group(text string) (ms members) {
	for _, w := range strings.Fields(text) {
		what, how, _ := strings.Cut(w, "=")
		name, hook, _ := strings.Cut(what, ":")
		m := member{name: strings.TrimSuffix(name, "!"), leader: strings.HasSuffix(name, "!"), hook: strings.TrimSuffix(hook, "+"), sidecar: strings.HasSuffix(hook, "+")}
		for h := range strings.SplitSeq(how, ",") {
			switch h {
			case "pending":
				m.state.Phase = task.Preparing
			case "up":
				m.state.Phase, m.state.Up, m.state.Launch = task.Running, true, 1
			case "again": // is stopped to be started again
				m.state.Phase, m.state.Again, m.state.Launch = task.Stopping, true, 1
			case "waiting": // between two launches
				m.state.Phase, m.state.Up, m.state.Launch = task.Waiting, true, 1
			case "dead":
				m.state.Phase, m.state.Up, m.state.Launch = task.Dead, true, 1
			case "failed":
				m.state.Phase, m.state.Task.Failed, m.state.Launch = task.Dead, true, 1
			case "killed":
				m.state.Phase, m.state.Kill = task.Dead, &task.Kill{}
			case "told":
				m.state.Kill = &task.Kill{}
			case "round1":
				m.state.Round = 1
			default:
				panic(how)
			}
		}
		ms.all = append(ms.all, m)
	}
	return ms
}

func TestLifecycleOrder(t *testing.T) {
	stop, cut := &task.Kill{Reason: "told so"}, &task.Kill{Reason: "no servers", Event: berth.EventCutOff}
	for _, c := range []struct {
		name, tasks string
		stop        *task.Kill
		open        string // the tasks that may be started
		ends        string // those that are told to end
	}{
		{"prestart goes first", "init:prestart=pending proxy:prestart+=pending app=pending log:poststart+=pending clean:poststop=pending", nil, "init proxy", ""},
		{"a sidecar that runs is not enough", "init:prestart=up proxy:prestart+=up app=pending", nil, "init proxy", ""},
		{"nor a prestart task that ended", "init:prestart=dead proxy:prestart+=pending app=pending", nil, "init proxy", ""},
		{"both are", "init:prestart=dead proxy:prestart+=up app=pending log:poststart+=pending", nil, "init proxy app", ""},
		{"a sidecar that is started again holds nobody up", "proxy:prestart+=waiting app=pending", nil, "proxy app", ""},
		{"poststart waits for all main tasks", "a=up b=pending log:poststart=pending", nil, "a b", ""},
		{"poststart goes when they run", "a=up b=up log:poststart=pending", nil, "a b log", ""},
		{"or have run", "a=dead b=up log:poststart=pending", nil, "a b log", ""},
		{"a failed prestart task ends the others", "init:prestart=failed proxy:prestart+=up app=pending clean:poststop=pending", nil, "init proxy", "app:Sibling Task Failed"},
		{"the sidecar last", "init:prestart=failed proxy:prestart+=up app=killed clean:poststop=pending", nil, "init proxy clean", "proxy:Sibling Task Failed"},
		{"sidecars end with the main tasks", "proxy:prestart+=up log:poststart+=up app=dead clean:poststop=pending", nil, "proxy app log clean", "log:Main Tasks Dead proxy:Main Tasks Dead"},
		{"not before all of them", "proxy:prestart+=up a=dead b=up clean:poststop=pending", nil, "proxy a b", ""},
		{"nor before a poststart task that runs to its end", "proxy:prestart+=up app=dead note:poststart=up clean:poststop=pending", nil, "proxy app note clean", ""},
		{"a stop ends the sidecar last", "proxy:prestart+=up app=up clean:poststop=pending", stop, "proxy app", "app:"},
		{"and then it", "proxy:prestart+=up app=killed clean:poststop=pending", stop, "proxy app clean", "proxy:"},
		{"poststop runs after a stop", "proxy:prestart+=dead app=dead,told clean:poststop=pending", stop, "proxy app clean", ""},
		{"not if nothing was started", "app=killed clean:poststop=pending", stop, "app", "clean:"},
		{"not if servers are cut off", "proxy:prestart+=up app=dead,told clean:poststop=up", cut, "proxy app", "clean:Servers Unreachable proxy:Servers Unreachable"},
		{"cut off, all end at once", "proxy:prestart+=up app=up clean:poststop=pending", cut, "proxy app", "app:Servers Unreachable proxy:Servers Unreachable"},
		{"a poststop task that runs is left to its end", "app=dead,told clean:poststop=up", stop, "app clean", ""},
		{"a failed poststop task ends no other", "app=dead one:poststop=failed two:poststop=up", nil, "app one two", ""},
		{"the leader ends the others", "lead!=dead app=up proxy:prestart+=up clean:poststop=pending", nil, "lead app proxy", "app:Leader Task Dead"},
		{"and the sidecar then", "lead!=dead app=killed proxy:prestart+=up clean:poststop=pending", nil, "lead app proxy clean", "proxy:Leader Task Dead"},
		{"a stop begins with the leader", "lead!=up app=up proxy:prestart+=up", stop, "lead app proxy", "lead:"},
		{"without main tasks, sidecars are the work", "proxy:prestart+=up clean:poststop=pending", nil, "proxy", ""},
		{"without main tasks, poststop follows prestart", "init:prestart=dead clean:poststop=pending", nil, "init clean", ""},
		{"only poststop", "clean:poststop=pending", nil, "clean", ""},
		{"a restart of all waits until all have stopped", "init:prestart=pending,round1 app=again,round1", nil, "", ""},
		{"and for those that do not know of it yet", "init:prestart=pending,round1 app=up", nil, "", ""},
		{"then the order is the same", "init:prestart=pending,round1 app=pending,round1", nil, "init", ""},
		{"what ended in the round before ends nothing", "init:prestart=pending,round1 proxy:prestart+=up app=dead clean:poststop=pending", nil, "", ""},
		{"what failed in the round before neither", "init:prestart=pending,round1 app=failed", nil, "", ""},
	} {
		ms := group(c.tasks)
		var open, ends []string
		for i := range ms.all {
			if ok, _ := gate(ms, c.stop, ms.all[i].name); ok {
				open = append(open, ms.all[i].name)
			}
		}
		want := strings.Fields(c.open)
		slices.Sort(want)
		slices.Sort(open)
		if !slices.Equal(open, want) {
			t.Errorf("%s: %v may start, want %v", c.name, open, want)
		}
		kills := orders(ms, c.stop)
		for _, n := range slices.Sorted(maps.Keys(kills)) {
			ends = append(ends, n+":"+kills[n].Event)
		}
		if got := strings.Join(ends, " "); got != c.ends {
			t.Errorf("%s: told to end %q, want %q", c.name, got, c.ends)
		}
	}
}

// play is an allocation whose tasks are decided by task.Step and the rules, with
// a driver that answers when the test lets it. What an agent records is all that
// is left when it is killed.
type play struct {
	t       *rapid.T
	hooks   []member
	states  []task.State
	running []bool // a process is there
	asked   uint64
	stop    *task.Kill
	due     []map[string]bool // by task: answers that are due
	done    []uint64          // round in which a prestart task that runs to its end did so, plus one
	now     time.Time
	delay   time.Duration // after an order to end
}

func (p *play) members() members {
	ms := members{asked: p.asked}
	for i, m := range p.hooks {
		m.state = p.states[i]
		ms.all = append(ms.all, m)
	}
	return ms
}

// step gives an event to a task and notes what is to be answered.
func (p *play) step(i int, e task.Event) {
	m := &p.hooks[i]
	once := m.hook != "" && !m.sidecar
	spec := &task.Spec{JobType: berth.TypeBatch, Once: once, Sidecar: m.sidecar, ShutdownDelay: p.delay, Restart: berth.RestartPolicy{Attempts: 1, Interval: time.Hour, Mode: berth.RestartFail}}
	p.now = p.now.Add(time.Second)
	s, do := task.Step(spec, p.states[i], e, p.now, 0)
	p.states[i] = s
	if once && m.hook == berth.HookPrestart && s.Phase == task.Dead && !s.Task.Failed && s.Kill == nil {
		p.done[i] = s.Round + 1
	}
	for _, a := range do {
		switch a.(type) {
		case task.DoLook:
			p.due[i]["look"] = true
		case task.DoPrepare:
			p.due[i]["prepare"] = true
		case task.DoStart:
			p.due[i]["start"] = true
		case task.DoStop:
			p.due[i]["stop"] = true
		case task.DoCancel:
			p.due[i]["cancel"] = true
		case task.DoAlarm:
			p.due[i]["alarm"] = true
		}
	}
}

// turn is one turn of the allocation's loop. What a task was told it is not told
// again in the next, so the loop comes to rest.
func (p *play) turn() {
	ms := p.members()
	kills := orders(ms, p.stop)
	for i := range ms.all {
		if k, ok := kills[ms.all[i].name]; ok {
			p.step(i, task.Order{Kill: k})
		} else if ms.all[i].behind(ms.round()) {
			p.step(i, task.Again{Round: ms.round(), Reason: "asked for"})
		}
	}
	for name, k := range orders(p.members(), p.stop) {
		if _, ok := kills[name]; ok {
			p.t.Fatalf("%s is told to end a second time: %+v", name, k)
		}
	}
}

// launch starts a process, and checks that it may be.
func (p *play) launch(i int) {
	m := &p.hooks[i]
	for j := range p.hooks {
		o := &p.hooks[j]
		switch {
		case i == j:
		case m.hook == "" && o.hook == berth.HookPrestart && !o.sidecar && p.done[j] != p.states[i].Round+1:
			p.t.Fatalf("main task %s starts in round %d, and %s has not completed in it: %+v", m.name, p.states[i].Round, o.name, p.states[j])
		case m.hook == berth.HookPoststop && (o.hook == "" && (p.running[j] || p.states[j].Phase != task.Dead)):
			p.t.Fatalf("%s starts while %s lives", m.name, o.name)
		}
	}
	if p.done[i] == p.states[i].Round+1 {
		p.t.Fatalf("%s is started again in round %d, where it has completed", m.name, p.states[i].Round)
	}
	p.running[i] = true
	p.step(i, task.Started{})
}

// answer gives one answer that is due to a task, or lets its process end.
func (p *play) answer(i int, code int) {
	due, s := p.due[i], &p.states[i]
	switch {
	case due["look"]:
		delete(due, "look")
		switch {
		case p.running[i]:
			p.step(i, task.Found{Launch: s.Launch})
		case s.Phase == task.Looking || s.Phase == task.Starting:
			p.step(i, task.NotFound{})
		default: // it ended while no agent was there, and the driver has kept how
			p.step(i, task.Found{Launch: s.Launch})
			p.step(i, task.Exited{Exit: driver.Exit{Code: code}})
		}
	case due["prepare"]:
		open, _ := gate(p.members(), p.stop, p.hooks[i].name)
		switch {
		case due["cancel"]:
			delete(due, "prepare")
			delete(due, "cancel")
			p.step(i, task.PrepareFailed{Why: "cancelled"})
		case open:
			delete(due, "prepare")
			p.step(i, task.Prepared{})
		}
	case due["start"]:
		delete(due, "start")
		delete(due, "cancel")
		if p.states[i].Kill != nil || p.states[i].Again {
			if code >= 0 { // too late to cancel it
				p.running[i] = true
				p.step(i, task.Started{})
				return
			}
			p.step(i, task.StartFailed{Why: "cancelled"})
			return
		}
		p.launch(i)
	case due["alarm"] && (s.Phase == task.Waiting || s.Phase == task.Delaying):
		delete(due, "alarm")
		p.now = p.now.Add(time.Minute)
		p.step(i, task.Alarm{})
	case p.running[i] && (due["stop"] || code >= 0):
		delete(due, "stop")
		p.running[i] = false
		p.step(i, task.Exited{Exit: driver.Exit{Code: max(0, code)}})
	}
}

// killAgent loses all that is not recorded, and restores the rest.
func (p *play) killAgent() {
	p.asked = 0
	for i := range p.states {
		b, err := json.Marshal(p.states[i])
		if err != nil {
			p.t.Fatal(err)
		}
		p.states[i], p.due[i] = task.State{}, map[string]bool{}
		if err := json.Unmarshal(b, &p.states[i]); err != nil {
			p.t.Fatal(err)
		}
		p.step(i, task.Restore{})
	}
}

// Whatever tasks do, whenever the agent is killed, all are restarted or stopped:
// the order of lifecycles holds, and an allocation that is stopped ends.
func TestNoOrderOfEventsBreaksTheLifecycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &play{t: t, now: time.Unix(1000, 0)}
		kinds := []member{{}, {hook: berth.HookPrestart}, {hook: berth.HookPrestart, sidecar: true}, {hook: berth.HookPoststart}, {hook: berth.HookPoststart, sidecar: true}, {hook: berth.HookPoststop}}
		for i := range rapid.IntRange(1, 5).Draw(t, "tasks") {
			m := rapid.SampledFrom(kinds).Draw(t, "kind")
			m.name = fmt.Sprintf("t%d", i)
			p.hooks = append(p.hooks, m)
			p.states, p.running = append(p.states, task.State{}), append(p.running, false)
			p.due, p.done = append(p.due, map[string]bool{}), append(p.done, 0)
		}
		if rapid.Bool().Draw(t, "led") {
			p.hooks[0].leader = true
		}
		p.delay = time.Duration(rapid.IntRange(0, 1).Draw(t, "delay")) * time.Minute
		hurry := rapid.IntRange(0, 5).Draw(t, "hurry") // turns after the order to end
		for i := range p.hooks {
			p.step(i, task.Begin{})
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				p.killAgent()
			case 1:
				ms := p.members()
				if l := ms.leader(); p.stop == nil && !ms.over() && ms.failed() == nil && (l == nil || !l.dead()) {
					p.asked = ms.round() + 1
				}
			case 2, 3:
				p.turn()
			default:
				p.answer(rapid.IntRange(0, len(p.hooks)-1).Draw(t, "task"), rapid.SampledFrom([]int{-1, -1, 0, 0, 1}).Draw(t, "code"))
			}
		}
		p.stop = &task.Kill{Reason: "told so"}
		for n := range 200 {
			p.turn()
			if n == hurry {
				p.stop = &task.Kill{Reason: "told so", NoDelay: true}
				p.turn()
			}
			for i := range p.hooks {
				code := -1
				if p.hooks[i].hook == berth.HookPoststop {
					code = 0
				}
				p.answer(i, code)
			}
		}
		for i := range p.states {
			if p.states[i].Phase != task.Dead || p.running[i] {
				t.Fatalf("stopped, and %s %q is %s; due %v", p.hooks[i].name, p.hooks[i].hook, p.states[i].Phase, p.due[i])
			}
		}
	})
}
