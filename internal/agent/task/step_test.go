package task

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/cron"
)

var update = flag.Bool("update", false, "rewrite the stories' outcomes")

// Stories of one task: what happens to it, and below the line what Step makes
// of each event: the phase, what is noted, what is to be done.
func TestStories(t *testing.T) {
	const file = "testdata/stories.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	n := 0
	for text := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		before, want, _ := strings.Cut(text, "\n----\n")
		n++
		got := tell(t, before)
		if !*update && strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s\n--- got\n%s\n--- want\n%s", before, got, want)
		}
		out = append(out, before+"\n----\n"+got)
	}
	if n < 25 {
		t.Errorf("only %d stories", n)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tell plays a story.
func tell(t *testing.T, text string) string {
	t.Helper()
	now := time.Unix(1_000_000, 0).UTC()
	begin := now
	spec := Spec{JobType: "service", KillTimeout: 5 * time.Second, Restart: berth.RestartPolicy{Attempts: 2, Interval: 30 * time.Minute, Delay: 10 * time.Second, Mode: "fail"}}
	var s State
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if after, ok := strings.CutPrefix(words[0], "+"); ok {
			now = now.Add(duration(t, after))
			words = words[1:]
		}
		switch words[0] {
		case "spec":
			readSpec(t, &spec, words[1:])
			continue
		case "agent": // dies, and its state goes through the database
			j, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			s = State{}
			if err := json.Unmarshal(j, &s); err != nil {
				t.Fatal(err)
			}
			words = []string{"restore"}
		}
		before, seen := s, len(s.Task.Events)
		copied := clone(s)
		var do []Action
		s, do = Step(&spec, s, readEvent(t, words), now, 0.5)
		if !reflect.DeepEqual(before, copied) {
			t.Errorf("%s changed the state it was given", line)
		}
		fmt.Fprintf(&b, "%-6v %s", now.Sub(begin), show(&s))
		if len(s.Task.Events) < seen {
			seen = 0
		}
		for _, e := range newEvents(before.Task.Events, s.Task.Events) {
			fmt.Fprintf(&b, "\n           %s: %s", e.Type, e.DisplayMessage)
		}
		for _, a := range do {
			fmt.Fprintf(&b, "\n       -> %s", showAction(a, begin))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func clone(s State) State {
	s.Task.Events = append([]berth.TaskEvent(nil), s.Task.Events...)
	if s.Kill != nil {
		k := *s.Kill
		s.Kill = &k
	}
	if len(s.Task.Events) == 0 {
		s.Task.Events = nil
	}
	return s
}

// newEvents returns what was added, in a history that drops the oldest.
func newEvents(old, all []berth.TaskEvent) []berth.TaskEvent {
	for n := len(old); n >= 0; n-- {
		if len(all) >= n && reflect.DeepEqual(old[len(old)-n:], all[:n]) {
			return all[n:]
		}
	}
	return all
}

func show(s *State) string {
	phase := string(s.Phase)
	if phase == "" {
		phase = "(nothing)"
	}
	out := fmt.Sprintf("%s, shown as %s", phase, s.Task.State)
	if s.Task.Failed {
		out += " failed"
	}
	if s.Launch > 0 {
		out += fmt.Sprintf(", launch %d", s.Launch)
	}
	if s.Task.Restarts > 0 {
		out += fmt.Sprintf(", %d restarts", s.Task.Restarts)
	}
	return out
}

func showAction(a Action, begin time.Time) string {
	switch a := a.(type) {
	case DoAlarm:
		return fmt.Sprintf("wake at %v", a.At.Sub(begin))
	case DoStop:
		return fmt.Sprintf("stop by %v, kill after %v", a.Signal, a.Timeout)
	case DoSignal:
		return fmt.Sprintf("signal %v", a.Signal)
	case DoStart:
		return fmt.Sprintf("start launch %d", a.Launch)
	case DoRelease:
		return fmt.Sprintf("release launch %d", a.Launch)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", a), "task.Do"))
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readSpec(t *testing.T, s *Spec, words []string) {
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		switch k {
		case "service", "batch", "stream":
			s.JobType = k
		case "once":
			s.Once = true
		case "sidecar":
			s.Sidecar = true
		case "attempts":
			fmt.Sscan(v, &s.Restart.Attempts)
		case "interval":
			s.Restart.Interval = duration(t, v)
		case "delay":
			s.Restart.Delay = duration(t, v)
		case "mode":
			s.Restart.Mode = v
		case "window": // minutes after 13:00; stories begin at 13:46:40
			from, to, _ := strings.Cut(v, "-")
			w, err := cron.NewWindow(&berth.TaskScheduleCron{Start: from + " 13 * * *", End: to + " 13"})
			if err != nil {
				t.Fatal(err)
			}
			s.Window = w
		case "kill_timeout":
			s.KillTimeout = duration(t, v)
		case "kill_signal":
			s.KillSignal = v
		case "shutdown_delay":
			s.ShutdownDelay = duration(t, v)
		default:
			t.Fatalf("spec %q", w)
		}
	}
}

func readEvent(t *testing.T, words []string) Event {
	rest := strings.Join(words[1:], " ")
	recoverable := strings.HasPrefix(rest, "recoverable ")
	why := strings.TrimPrefix(rest, "recoverable ")
	number := func() (n int) { fmt.Sscan(rest, &n); return n }
	switch words[0] {
	case "begin":
		return Begin{Adopt: rest == "adopt"}
	case "restore":
		return Restore{}
	case "found":
		return Found{Launch: uint64(number())}
	case "unknown":
		return NotFound{}
	case "lost":
		return Lost{Why: rest}
	case "rebooted":
		return Lost{Why: "the machine was restarted", Reboot: true}
	case "prepared":
		return Prepared{}
	case "unprepared":
		return PrepareFailed{Why: why, Recoverable: recoverable}
	case "started":
		return Started{}
	case "unstarted":
		return StartFailed{Why: why, Recoverable: recoverable}
	case "progress":
		n, message, _ := strings.Cut(rest, " ")
		launch, _ := strconv.ParseUint(n, 10, 64)
		return Progress{Launch: launch, Message: message}
	case "exit":
		return Exited{driver.Exit{Code: number()}}
	case "signaled":
		return Exited{driver.Exit{Code: 128 + number(), Signal: number()}}
	case "alarm":
		return Alarm{}
	case "stop":
		return Order{Kill{Reason: "the job was stopped", NoDelay: rest == "now"}}
	case "sibling":
		return Order{Kill{Reason: "task \"db\" failed", Event: berth.EventSiblingFailed}}
	case "leader":
		return Order{Kill{Reason: "the leader has ended", Event: berth.EventLeaderDead}}
	case "again":
		return Again{Reason: rest}
	case "round":
		return Again{Reason: "asked for all", Round: uint64(number())}
	case "signal":
		return Signal{Name: rest, Reason: "asked for"}
	case "schedule":
		return Schedule{Order: rest}
	}
	t.Fatalf("event %q", words)
	return nil
}

// In fail mode no interval of the policy holds more restarts than it allows,
// and in both modes a restart is never sooner than its delay.
func TestRestartPolicyIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := berth.RestartPolicy{
			Attempts: rapid.IntRange(0, 5).Draw(t, "attempts"),
			Interval: time.Duration(rapid.IntRange(5, 100).Draw(t, "interval")) * time.Second,
			Delay:    time.Duration(rapid.IntRange(0, 10).Draw(t, "delay")) * time.Second,
			Mode:     rapid.SampledFrom([]string{berth.RestartFail, berth.RestartDelay}).Draw(t, "mode"),
		}
		spec := Spec{JobType: berth.TypeService, Restart: p}
		now := time.Unix(1000, 0)
		var s State
		step := func(e Event) {
			s, _ = Step(&spec, s, e, now, rapid.Float64Range(0, 0.999).Draw(t, "chance"))
		}
		var restarts []time.Time // when each was decided
		step(Begin{})
		for range 60 {
			switch s.Phase {
			case Preparing:
				step(Prepared{})
			case Starting:
				if rapid.Bool().Draw(t, "starts") {
					step(Started{})
				} else {
					step(StartFailed{Why: "x", Recoverable: true})
				}
			case Running:
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ran")) * time.Second)
				step(Exited{driver.Exit{Code: rapid.IntRange(0, 2).Draw(t, "code")}})
			case Waiting:
				wait := s.Until.Sub(now)
				restarts = append(restarts, now)
				if p.Mode == berth.RestartFail && (wait < p.Delay || wait > p.Delay+p.Delay/4) {
					t.Fatalf("waits %v for a delay of %v", wait, p.Delay)
				}
				now = s.Until
				step(Alarm{})
			case Dead:
				if !s.Task.Failed || p.Mode == berth.RestartDelay {
					t.Fatalf("dead in mode %s, failed %v", p.Mode, s.Task.Failed)
				}
			}
		}
		if p.Mode == berth.RestartDelay {
			return
		}
		// Count plainly: cut time into intervals that begin with the first
		// restart after the last ended.
		for i := 0; i < len(restarts); {
			j := i
			for j < len(restarts) && restarts[j].Before(restarts[i].Add(p.Interval)) {
				j++
			}
			if j-i > p.Attempts {
				t.Fatalf("%d restarts in an interval of %v, allowed are %d", j-i, p.Interval, p.Attempts)
			}
			i = j
		}
		if int(s.Task.Restarts) != len(restarts) && s.Phase != Waiting {
			t.Fatalf("%d restarts are shown, %d were made", s.Task.Restarts, len(restarts))
		}
	})
}

// Whatever happens in whatever order: a dead task stays dead unless all of its
// allocation start again, an order to end
// stays, nothing starts after it, and a task that is started is one that no
// other launch of it can still run beside.
func TestNoOrderOfEventsBreaksATask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{JobType: "service", ShutdownDelay: time.Duration(rapid.IntRange(0, 5).Draw(t, "delay")) * time.Second,
			Restart: berth.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: time.Second, Mode: rapid.SampledFrom([]string{"fail", "delay"}).Draw(t, "mode")}}
		events := []Event{
			Begin{}, Begin{Adopt: true}, Restore{}, Found{Launch: 1}, Found{Launch: 2}, Found{Launch: 9}, NotFound{}, Lost{}, Lost{Reboot: true},
			Prepared{}, PrepareFailed{}, PrepareFailed{Recoverable: true}, Started{}, StartFailed{}, StartFailed{Recoverable: true},
			Exited{}, Exited{driver.Exit{Code: 1}}, Alarm{}, Order{Kill{}}, Order{Kill{NoDelay: true}}, Again{}, Again{Round: 1}, Again{Round: 2}, Signal{Name: "SIGHUP"},
			Schedule{}, Schedule{Order: "pause"}, Schedule{Order: "run"}, Schedule{Order: "scheduled"},
		}
		var s State
		now := time.Unix(1000, 0)
		live := false // a process may be there
		for range 40 {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * time.Second)
			e := rapid.SampledFrom(events).Draw(t, "event")
			before := s
			var do []Action
			s, do = Step(&spec, s, e, now, 0)
			if f, ok := e.(Found); ok && f.Launch < before.Launch {
				e = NotFound{} // as Step takes it
			}
			switch e.(type) {
			case Started, Found:
				live = live || before.Phase != s.Phase && (s.Phase == Running || s.Phase == Delaying || s.Phase == Stopping)
			case Exited, Lost, StartFailed:
				if before.Phase != s.Phase || len(do) > 0 {
					live = false
				}
			case NotFound:
				live = false
			}
			again, _ := e.(Again)
			joins := again.Round > before.Round && before.Kill == nil
			if before.Phase == Dead && !joins && (s.Phase != Dead || s.Task.Failed != before.Task.Failed) {
				t.Fatalf("%T woke the dead: %+v", e, s)
			}
			if before.Kill != nil && s.Kill == nil {
				t.Fatalf("%T took an order back", e)
			}
			for _, a := range do {
				if start, ok := a.(DoStart); ok && (before.Kill != nil || live || start.Launch <= before.Launch) {
					t.Fatalf("%T starts launch %d from %+v", e, start.Launch, before)
				}
			}
			if len(s.Task.Events) > berth.TaskEventsKept {
				t.Fatalf("%d events are kept", len(s.Task.Events))
			}
			if s.Phase == Dead && (s.Task.State != berth.TaskDead || s.Task.FinishedAt.IsZero()) {
				t.Fatalf("dead, shown as %+v", s.Task)
			}
		}
	})
}

// A delay that another agent began ends in time also if the clock is put back later.
func TestARestoredDelayGoesByTheMonotonicClock(t *testing.T) {
	now := time.Now()
	until := now.Add(5 * time.Second)
	spec := &Spec{ShutdownDelay: time.Minute, Restart: berth.RestartPolicy{Delay: time.Minute}}
	for _, phase := range []Phase{Waiting, Delaying} {
		recorded := State{Phase: phase, Until: until.Round(0)} // without a time of the monotonic clock
		if s, _ := Step(spec, recorded, Restore{}, now, 0); s.Until != until {
			t.Errorf("%s until %v, want %v", phase, s.Until, until)
		}
	}
}

func TestSignalNames(t *testing.T) {
	for name, want := range map[string]string{"SIGTERM": "terminated", "sigusr1": "user defined signal 1", "": "interrupt", "SIGNOTHING": "interrupt"} {
		if got := SignalNumber(name).String(); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}
