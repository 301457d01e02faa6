package reconcile_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule/reconcile"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// A story says what there is and shows what Compare wants changed.
//
//	v0 count=2 task.Env={"A":"1"}     a version of the job, see statetest.JobOf
//	v1 count=3                        the next; the last one is the job. Beside what statetest.JobOf says:
//	                                  disconnect="lost_after=1h replace=false reconcile=keep_original stop=30s"
//	                                  update="max_parallel=2 canary=1 auto_promote"
//	job stopped | purged | anew       or the job of the name is another one now
//	a1 g[0] v0 running n1 …           an allocation: its name, version, client status and node;
//	                                  stop="why" followup=e2 ended=-30s ran=1h next=a2 orphaned
//	                                  migrate reschedule force unknown=-5m score=0.5 since=-1h
//	                                  dep=d1 canary healthy unhealthy
//	                                  cutoff: it stopped because no server was reached
//	node n1 down | gone | disconnected | draining   what is not said is ready; since=-30s for its status
//	deployment d1 v1 running canaries=1 promoted    the newest; of a version; running, paused, failed or successful
//	infeasible n1                     the node does not meet the job's conditions any more
//	replaced g[0] streak=2 at=-1h,-5m earlier reschedules
//	eval e7                           the evaluation in hand; e1 if not said
//	waiting e2                        an evaluation that is there and not yet due
//
// The world grows from step to step.
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := newWorld(t)
		return func(input string) string {
			for _, l := range statetest.Lines(t, input) {
				w.line(l)
			}
			return w.show(reconcile.Compare(w.input()))
		}
	})
}

// noon is when the stories play.
var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

type instance struct {
	group string
	index uint32
}

type history struct {
	streak int
	events []berth.RescheduleEvent
}

type world struct {
	t          *testing.T
	lines      []*statetest.Line // of the versions
	versions   []*berth.Job
	job        string // "", stopped, purged or anew
	allocs     map[berth.AllocID]*berth.Alloc
	nodes      map[berth.NodeID]string
	silent     map[berth.NodeID]time.Time // since when its node has its status
	infeasible map[berth.NodeID]bool
	replaced   map[instance]history
	eval       berth.EvalID
	waiting    map[berth.EvalID]bool
	deployment *berth.Deployment
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, allocs: map[berth.AllocID]*berth.Alloc{}, nodes: map[berth.NodeID]string{}, silent: map[berth.NodeID]time.Time{}, infeasible: map[berth.NodeID]bool{},
		replaced: map[instance]history{}, eval: statetest.ID[berth.Eval](1), waiting: map[berth.EvalID]bool{},
	}
}

func (w *world) line(l *statetest.Line) {
	switch {
	case l.Verb == "job":
		w.job = l.Word(0)
	case l.Verb == "node":
		w.nodes[w.node(l.Word(0))] = l.Word(1)
		w.silent[w.node(l.Word(0))] = noon.Add(l.Duration(w.t, "since", 0))
	case l.Verb == "infeasible":
		w.infeasible[w.node(l.Word(0))] = true
	case l.Verb == "eval":
		w.eval = id[berth.Eval](w.t, "e", l.Word(0))
	case l.Verb == "waiting":
		w.waiting[id[berth.Eval](w.t, "e", l.Word(0))] = true
	case l.Verb == "replaced":
		h := history{streak: l.Int(w.t, "streak", 0)}
		for _, at := range l.List("at") {
			h.events = append(h.events, berth.RescheduleEvent{RescheduleTime: noon.Add(w.duration(at)).UnixNano()})
		}
		w.replaced[w.instance(l.Word(0))] = h
	case l.Verb == "deployment":
		w.deploy(l)
	case strings.HasPrefix(l.Verb, "v"):
		w.version(l)
		return
	case strings.HasPrefix(l.Verb, "a"):
		w.alloc(l)
	default:
		w.t.Fatalf("%s: not understood", l)
	}
	l.Done(w.t)
}

func (w *world) version(l *statetest.Line) {
	w.t.Helper()
	if l.Verb != fmt.Sprintf("v%d", len(w.versions)) {
		w.t.Fatalf("%s: the next version is %d", l, len(w.versions))
	}
	if n := len(w.lines); n > 0 {
		l = l.Over(w.lines[n-1])
	}
	l.Words = append([]string{"web"}, l.Words...)
	w.lines = append(w.lines, l)
	disconnect, update := disconnectOf(w.t, l.Text("disconnect", "")), updateOf(w.t, l.Text("update", ""))
	j := *statetest.JobOf(w.t, l)
	j.Version, j.UID = uint64(len(w.versions)), berth.UID{Index: 10}
	j.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range j.TaskGroups { // what the door may refuse
		c := *g
		c.Disconnect, c.Update = disconnect, update
		if c.Once != "" {
			c.Update = nil
		}
		j.TaskGroups[i] = &c
	}
	w.versions = append(w.versions, &j)
}

func disconnectOf(t *testing.T, text string) *berth.DisconnectStrategy {
	if text == "" {
		return nil
	}
	l := statetest.Lines(t, "disconnect "+text)[0]
	d := &berth.DisconnectStrategy{
		LostAfter: l.Duration(t, "lost_after", 0), Replace: l.Text("replace", "true") == "true", Reconcile: l.Text("reconcile", berth.KeepBestScore),
	}
	if stop := l.Duration(t, "stop", 0); stop > 0 {
		d.StopOnClientAfter = &stop
	}
	l.Done(t)
	return d
}

func updateOf(t *testing.T, text string) *berth.UpdateStrategy {
	if text == "" {
		return nil
	}
	l := statetest.Lines(t, "update "+text)[0]
	u := &berth.UpdateStrategy{
		MaxParallel: l.Int(t, "max_parallel", 1), Canary: l.Int(t, "canary", 0), AutoPromote: l.Has("auto_promote"),
		ProgressDeadline: l.Duration(t, "deadline", 10*time.Minute),
	}
	l.Done(t)
	return u
}

func (w *world) deploy(l *statetest.Line) {
	w.t.Helper()
	j := w.versionOf(l, l.Word(1))
	d := &berth.Deployment{
		ID: id[berth.Deployment](w.t, "d", l.Word(0)), Namespace: j.Namespace, JobID: j.ID, JobUID: j.UID, JobVersion: j.Version,
		Status: l.Word(2), TaskGroups: map[string]*berth.DeploymentState{},
	}
	for _, g := range j.TaskGroups {
		if g.Once != "" {
			continue
		}
		d.TaskGroups[g.Name] = &berth.DeploymentState{DesiredTotal: g.Count, DesiredCanaries: l.Int(w.t, "canaries", 0), Promoted: l.Has("promoted")}
	}
	w.deployment = d
}

// versionOf returns the job's version of a name such as v1.
func (w *world) versionOf(l *statetest.Line, name string) *berth.Job {
	w.t.Helper()
	version := 0
	if _, err := fmt.Sscanf(name, "v%d", &version); err != nil || version >= len(w.versions) {
		w.t.Fatalf("%s: which version?", l)
	}
	return w.versions[version]
}

func (w *world) alloc(l *statetest.Line) {
	w.t.Helper()
	in := w.instance(l.Word(0))
	number := 0
	if _, err := fmt.Sscanf(l.Verb, "a%d", &number); err != nil {
		w.t.Fatalf("%s: %v", l, err)
	}
	j := w.versionOf(l, l.Word(1))
	if l.Has("older") { // of an earlier job of the same name
		old := *j
		old.UID = berth.UID{Index: 5}
		j = &old
	}
	a := &berth.Alloc{
		ID: id[berth.Alloc](w.t, "a", l.Verb), NodeID: w.node(l.Word(3)), Job: j, Group: j.Group(in.group), Index: in.index,
		CreateIndex: uint64(100 + number), Orphaned: l.Has("orphaned"),
	}
	if a.Group == nil {
		w.t.Fatalf("%s: version %d has no group %q", l, j.Version, in.group)
	}
	if err := a.Client.UnmarshalText([]byte(l.Word(2))); err != nil {
		w.t.Fatalf("%s: %v", l, err)
	}
	ended := noon.Add(l.Duration(w.t, "ended", 0))
	a.ModifyTime = ended.UnixNano()
	if ran := l.Duration(w.t, "ran", 0); ran > 0 {
		a.Tasks = state.PackTaskStates(map[string]*berth.TaskState{"task": {
			State: berth.TaskDead, Failed: true, StartedAt: ended.Add(-ran), FinishedAt: ended,
		}})
	}
	if l.Has("cutoff") {
		a.Tasks = state.PackTaskStates(map[string]*berth.TaskState{"task": {
			State: berth.TaskDead, FinishedAt: ended, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventCutOff, ended)},
		}})
	}
	if since := l.Duration(w.t, "since", 0); since < 0 {
		a.Tasks = state.PackTaskStates(map[string]*berth.TaskState{"task": {State: berth.TaskRunning, StartedAt: noon.Add(since)}})
	}
	if _, err := fmt.Sscan(l.Text("score", "0"), &a.Score); err != nil {
		w.t.Fatalf("%s: score: %v", l, err)
	}
	more := w.more(l)
	if why := l.Text("stop", ""); why != "" {
		a.Desired, more.StopReason = berth.DesiredStop, stopReasons[why]
		if more.StopReason == berth.StopNone {
			w.t.Fatalf("%s: why did it stop? %s", l, slices.Sorted(maps.Keys(stopReasons)))
		}
	}
	if f := l.Text("followup", ""); f != "" {
		more.FollowupEval = id[berth.Eval](w.t, "e", f)
	}
	if n := l.Text("next", ""); n != "" {
		more.Next = id[berth.Alloc](w.t, "a", n)
	}
	if !reflect.DeepEqual(more, berth.AllocMore{}) {
		a.More = &more
	}
	w.allocs[a.ID] = a
}

// more is what few allocations have.
func (w *world) more(l *statetest.Line) berth.AllocMore {
	more := berth.AllocMore{Migrate: l.Has("migrate"), Reschedule: l.Has("reschedule"), ForceReschedule: l.Has("force"), Relocate: l.Has("relocate")}
	if since := l.Duration(w.t, "unknown", 0); since != 0 {
		more.UnknownSince = noon.Add(since).UnixNano()
	}
	if d := l.Text("dep", ""); d != "" {
		more.DeploymentID = id[berth.Deployment](w.t, "d", d)
	}
	if l.Has("canary") || l.Has("healthy") || l.Has("unhealthy") {
		more.DeploymentStatus = &berth.AllocDeploymentStatus{Canary: l.Has("canary")}
		if healthy := l.Has("healthy"); healthy || l.Has("unhealthy") {
			more.DeploymentStatus.Healthy = &healthy
		}
	}
	return more
}

var stopReasons = map[string]berth.StopReason{
	"surplus": berth.StopSurplus, "replaced": berth.StopReplaced, "lost": berth.StopNodeLost, "failed": berth.StopFailed,
	"migrated": berth.StopMigrated, "wanted": berth.StopWanted, "away": berth.StopAway, "rejoined": berth.StopRejoined, "ended": berth.StopJobEnded,
}

// input is what there is as Compare wants it.
func (w *world) input() reconcile.Input {
	in := reconcile.Input{
		UID: berth.UID{Index: 10}, Eval: w.eval, Now: noon, Deployment: w.deployment, Allocs: slices.Collect(maps.Values(w.allocs)),
		Node: func(n berth.NodeID) *berth.Node {
			status := w.nodes[n]
			if status == "gone" {
				return nil
			}
			if status == "" {
				status = berth.NodeReady
			}
			if status == "draining" {
				return &berth.Node{ID: n, Status: berth.NodeReady, SchedulingEligibility: berth.NodeIneligible, DrainStrategy: &berth.DrainStrategy{}}
			}
			return &berth.Node{ID: n, Status: status, StatusUpdatedAt: w.silent[n].Unix()}
		},
		Feasible: func(_ int, n *berth.Node) bool { return !w.infeasible[n.ID] },
		Replaced: func(group string, index uint32) (int, []berth.RescheduleEvent) {
			h := w.replaced[instance{group, index}]
			return h.streak, h.events
		},
		Waiting: func(e berth.EvalID) bool { return w.waiting[e] },
	}
	if n := len(w.versions); n > 0 {
		in.Job = w.versions[n-1]
	}
	switch w.job {
	case "stopped":
		j := *in.Job
		j.Stop, j.Version = true, j.Version+1
		in.Job = &j
	case "purged":
		in.Job = nil
	case "anew":
		j := *in.Job
		j.Version, j.UID = 0, berth.UID{Index: 50}
		in.Job, in.UID = &j, j.UID
	}
	return in
}

func (w *world) show(r reconcile.Result) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	for _, m := range r.Missing {
		j := w.input().Job
		s := fmt.Sprintf("place %s[%d]", j.TaskGroups[m.Group].Name, m.Index)
		if m.Previous != nil {
			s += " after " + short("a", m.Previous.ID)
		}
		if m.Failed {
			s += " that failed"
		}
		if m.OldVersion {
			s += fmt.Sprintf(", of v%d", m.Previous.Job.Version)
		}
		if m.Canary {
			s += ", a canary"
		}
		line("%s", s)
	}
	for _, s := range r.Stop {
		what := "stop"
		switch s.Client {
		case berth.ClientLost:
			what = "lost"
		case berth.ClientUnknown:
			what = "unknown"
		}
		line("%s %s: %s", what, short("a", s.ID), s.Description())
	}
	for _, u := range r.Update {
		line("update %s", short("a", u))
	}
	for _, l := range r.Followups {
		s := fmt.Sprintf("later %v:", l.At.Sub(noon))
		if l.Trigger != berth.TriggerAllocFailure {
			s = fmt.Sprintf("later %v by %s:", l.At.Sub(noon), l.Trigger)
		}
		for _, a := range l.Allocs {
			s += " " + short("a", a)
		}
		line("%s", s)
	}
	if d := r.Deploy; d != nil {
		s := fmt.Sprintf("deploy v%d:", d.JobVersion)
		for _, g := range slices.Sorted(maps.Keys(d.TaskGroups)) {
			s += fmt.Sprintf(" %s total %d", g, d.TaskGroups[g].DesiredTotal)
			if n := d.TaskGroups[g].DesiredCanaries; n > 0 {
				s += fmt.Sprintf(" canaries %d", n)
			}
		}
		line("%s: %s", s, d.StatusDescription)
	}
	if d := r.Deployed; d != nil {
		line("deployment %s %s: %s", short("d", d.ID), d.Status, d.Description)
	}
	for _, g := range slices.Sorted(maps.Keys(r.Waits)) {
		for _, x := range r.Waits[g] {
			line("%s waits for %s: %d of %d %s", g, x.Group, x.Ready, x.Wanted, x.State)
		}
	}
	for _, g := range slices.Sorted(maps.Keys(r.Counts)) {
		c := r.Counts[g]
		s := ""
		for _, x := range []struct {
			name string
			n    int
		}{{"place", c.Place}, {"stop", c.Stop}, {"update", c.Update}, {"replace", c.Replace}, {"migrate", c.Migrate}, {"canary", c.Canary}, {"ignore", c.Ignore}, {"later", c.Later}} {
			if x.n != 0 {
				s += fmt.Sprintf(" %s %d", x.name, x.n)
			}
		}
		if s == "" {
			s = " nothing"
		}
		line("%s:%s", g, s)
	}
	return out.String()
}

// id returns the ID that a letter and a number name.
func id[T any](t *testing.T, letter, name string) berth.ID[T] {
	t.Helper()
	n := 0
	if _, err := fmt.Sscanf(name, letter+"%d", &n); err != nil {
		t.Fatalf("%q: %s7 would be one", name, letter)
	}
	return statetest.ID[T](n)
}

func short[T any](letter string, id berth.ID[T]) string {
	hi, _ := id.Words()
	return fmt.Sprintf("%s%d", letter, hi>>32)
}

func (w *world) node(name string) berth.NodeID { return id[berth.Node](w.t, "n", name) }

func (w *world) instance(name string) (in instance) {
	w.t.Helper()
	group, rest, ok := strings.Cut(name, "[")
	if _, err := fmt.Sscanf(rest, "%d]", &in.index); err != nil || !ok {
		w.t.Fatalf("%q: g[0] would name an instance", name)
	}
	in.group = group
	return in
}

func (w *world) duration(s string) time.Duration {
	w.t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}
