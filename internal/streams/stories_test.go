package streams_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
	"berth/internal/state/statetest"
	"berth/internal/streams"
)

// A story says what stream jobs are, one at a time, and what is changed of them.
//
//	job t [namespace=n] [scope=s] [app=a]    what follows is of this job
//	group g [in=a,b] [out=c] [env=v] [live] [no-restart] [pool=p] [colocate=x] [exlocate=y]
//	region r width=3 groups=g,h
//	pool p [tags=a,b] [hosts=n1,n2] [size=2] [exclusive]
//	stream s from=g.c to=h.a,k.b [distribution=hash]
//	export e from=g.c [id=s | kind=raw n=3 flag=true list=eu,us] [no-filter] [drop]
//	import i into=g.a [id=s] [app=a] [scope=s] [sub="…"] [filter="…"]
//	memory 500                               of every task
//	without group g                          the block goes
//	plan                                     the plan for it, beside the one before
//	routes                                   those between all jobs as planned
//
// A block that is there is replaced, in its place.
func TestStories(t *testing.T) {
	statetest.Stories(t, "testdata/*.txt", func(t *testing.T) func(input string) string {
		w := &world{t: t, jobs: map[string]*work{}}
		return func(input string) string {
			w.out.Reset()
			for _, l := range statetest.Lines(t, input) {
				w.line(l)
			}
			return w.out.String()
		}
	})
}

type world struct {
	t    *testing.T
	jobs map[string]*work
	all  []*work
	job  *work
	out  strings.Builder
}

// work is a job as it is written, and what it came to.
type work struct {
	tree   decode.Tree
	stream decode.Tree
	job    *berth.Job
	plan   *berth.StreamPlan
	uid    berth.UID
}

func (w *world) line(l *statetest.Line) {
	if l.Verb == "job" {
		w.begin(l)
		l.Done(w.t)
		return
	}
	switch l.Verb {
	case "plan":
		w.plan()
	case "routes":
		w.routes()
	case "memory":
		for _, g := range w.job.tree["TaskGroups"].([]any) {
			g.(decode.Tree)["Tasks"].([]any)[0].(decode.Tree)["Resources"] = decode.Tree{"MemoryMB": decode.Number(l.Word(0))}
		}
	case "without":
		in, key := w.job.place(l.Word(0))
		in[key] = slices.DeleteFunc(in[key].([]any), func(x any) bool { return x.(decode.Tree)["Name"] == l.Word(1) })
	default:
		tree := w.block(l)
		tree["Name"] = l.Word(0)
		in, key := w.job.place(l.Verb)
		list, _ := in[key].([]any)
		if i := slices.IndexFunc(list, func(x any) bool { return x.(decode.Tree)["Name"] == l.Word(0) }); i >= 0 {
			list[i] = tree
		} else {
			in[key] = append(list, tree)
		}
	}
	l.Done(w.t)
}

func (w *world) begin(l *statetest.Line) {
	name := l.Word(0)
	if w.jobs[name] == nil {
		s := decode.Tree{}
		j := &work{stream: s, uid: berth.UID{Index: uint64(len(w.all) + 1)}}
		j.tree = decode.Tree{"ID": name, "Type": berth.TypeStream, "Stream": s}
		w.jobs[name] = j
		w.all = append(w.all, j)
	}
	w.job = w.jobs[name]
	if ns := l.Text("namespace", ""); ns != "" {
		w.job.tree["Namespace"] = ns
	}
	w.job.stream["Application"] = decode.Tree{"Name": l.Text("app", ""), "Scope": l.Text("scope", "")}
}

// place returns where blocks of a kind stand.
func (j *work) place(verb string) (decode.Tree, string) {
	switch verb {
	case "group":
		return j.tree, "TaskGroups"
	case "pool":
		return j.stream, "HostPools"
	}
	return j.stream, strings.ToUpper(verb[:1]) + verb[1:] + "s"
}

func (w *world) block(l *statetest.Line) decode.Tree {
	text := func(name string) string { return l.Text(name, "") }
	switch l.Verb {
	case "group":
		return w.group(l)
	case "region":
		return decode.Tree{"Width": decode.Number(text("width")), "Groups": list(l.List("groups"))}
	case "pool":
		p := decode.Tree{"Tags": list(l.List("tags")), "Hosts": list(l.List("hosts")), "Size": decode.Number(l.Text("size", "0"))}
		if l.Has("exclusive") {
			p["Mode"] = berth.PoolExclusive
		}
		return p
	case "stream":
		return decode.Tree{"From": text("from"), "To": list(l.List("to")), "Distribution": text("distribution")}
	case "export":
		x := decode.Tree{"From": text("from"), "StreamID": text("id"), "AllowFilter": !l.Has("no-filter"), "Properties": decode.Tree{}}
		if l.Has("drop") {
			x["Congestion"] = berth.CongestionDrop
		}
		for _, name := range l.Names() {
			x["Properties"].(decode.Tree)[name] = value(l.List(name))
		}
		return x
	case "import":
		return decode.Tree{
			"Into": text("into"), "StreamID": text("id"), "Application": text("app"), "Scope": text("scope"),
			"Subscription": text("sub"), "Filter": text("filter"),
		}
	}
	w.t.Fatalf("%s: there is no such verb", l)
	return nil
}

func (w *world) group(l *statetest.Line) decode.Tree {
	s := decode.Tree{"LiveRewire": l.Has("live"), "Policy": decode.Tree{"RestartFailed": !l.Has("no-restart")}}
	var ports, in, out []any
	for _, name := range l.List("in") {
		in = append(in, decode.Tree{"Name": name, "Port": name})
	}
	for _, name := range slices.Sorted(slices.Values(l.List("in"))) {
		ports = append(ports, decode.Tree{"Label": name}) // their order is part of what a group is
	}
	for _, name := range l.List("out") {
		out = append(out, decode.Tree{"Name": name})
	}
	s["Inputs"], s["Outputs"] = in, out
	s["Placement"] = decode.Tree{"Pool": l.Text("pool", ""), "Colocate": list(l.List("colocate")), "Exlocate": list(l.List("exlocate"))}
	g := decode.Tree{
		"Stream": s, "Networks": []any{decode.Tree{"DynamicPorts": ports}},
		"Tasks": []any{decode.Tree{"Name": "t", "Driver": "mock_driver", "Env": decode.Tree{"V": l.Text("env", "1")}}},
	}
	return g
}

func list(words []string) []any {
	out := []any{}
	for _, s := range words {
		out = append(out, s)
	}
	return out
}

// value is a property as it is written: several words are a list.
func value(words []string) any {
	one := func(s string) any {
		if _, err := strconv.ParseFloat(s, 64); err == nil {
			return decode.Number(s)
		}
		if s == "true" || s == "false" {
			return s == "true"
		}
		return s
	}
	if len(words) == 1 {
		return one(words[0])
	}
	var out []any
	for _, s := range words {
		out = append(out, one(s))
	}
	return out
}

// plan shows the plan, and of each processing element what became of it.
func (w *world) plan() {
	j := w.job
	job, err := admit.DecodeJob(j.tree, admit.FromJSON)
	if err != nil {
		fmt.Fprintln(&w.out, err)
		return
	}
	before := j.plan
	plan, err := streams.Expand(job, before)
	if err != nil {
		fmt.Fprintln(&w.out, err)
		return
	}
	j.job, j.plan = job, plan
	fmt.Fprintf(&w.out, "generation %d, next PE %d\n", plan.Generation, plan.NextPE)
	elements := slices.SortedFunc(slices.Values(plan.Of(berth.KindPE)), func(a, b berth.StreamObject) int { return cmp.Compare(a.PE.ID, b.PE.ID) })
	for _, o := range elements {
		fmt.Fprintf(&w.out, "%d %s %s%s\n", o.PE.ID, o.Name, w.fate(before, &o), wires(plan, &o))
	}
	for _, o := range before.Of(berth.KindPE) {
		if plan.Object(berth.KindPE, o.Name) == nil {
			fmt.Fprintf(&w.out, "%d %s is gone\n", o.PE.ID, o.Name)
		}
	}
	for _, kind := range berth.StreamKinds {
		w.kind(kind, before, plan)
	}
}

func (w *world) fate(before *berth.StreamPlan, o *berth.StreamObject) string {
	b := before.Object(berth.KindPE, o.Name)
	switch {
	case b == nil:
		return "new"
	case b.PE.ID != o.PE.ID:
		w.t.Errorf("%s was %d and is %d", o.Name, b.PE.ID, o.PE.ID)
	case b.PE.ContentID == o.PE.ContentID:
		return "runs on"
	}
	return "is launched anew"
}

// wires tells what a processing element is joined with.
func wires(plan *berth.StreamPlan, o *berth.StreamObject) (out string) {
	if o.PE.Region != "" {
		out += fmt.Sprintf(", channel %d of %d in %s", o.PE.Channel, o.PE.MaxChannels, o.PE.Region)
	}
	c := plan.Object(berth.KindConfig, o.Name).Config
	for _, in := range c.Inputs {
		out += ", " + in.Name + " from" + names(in.From)
	}
	for _, p := range c.Outputs {
		out += ", " + p.Name + " to" + names(p.To)
		if p.Distribution != berth.DistributionBroadcast {
			out += " (" + p.Distribution + ")"
		}
	}
	return out
}

func names(peers []berth.PEPeer) (out string) {
	for _, p := range peers {
		out += fmt.Sprintf(" %d.%s", p.ID, p.Port)
	}
	if out == "" {
		out = " none"
	}
	return out
}

// kind tells how many objects of a kind there are, and how many are as before.
func (w *world) kind(kind string, before, plan *berth.StreamPlan) {
	all := plan.Of(kind)
	if len(all) == 0 {
		return
	}
	same, list := 0, ""
	for _, o := range all {
		if b := before.Object(kind, o.Name); b != nil && b.Hash == o.Hash {
			same++
		}
		if kind != berth.KindPE && kind != berth.KindConfig && kind != berth.KindEndpoint {
			list += " " + o.Name
		}
	}
	if list != "" {
		list = ":" + list
	}
	if before != nil {
		list = fmt.Sprintf(", %d as before%s", same, list)
	}
	fmt.Fprintf(&w.out, "%s %d%s\n", kind, len(all), list)
}

// resources are what the plans of all jobs come to, of one kind.
func (w *world) resources(kind string) (out []*berth.Object) {
	for _, j := range w.all {
		out = append(out, resources(j.job, j.plan, j.uid, kind)...)
	}
	return out
}

// resources are what a plan comes to, of one kind.
func resources(job *berth.Job, plan *berth.StreamPlan, owner berth.UID, kind string) (out []*berth.Object) {
	for i, o := range plan.Of(kind) {
		r := &berth.Object{Kind: kind, Name: o.Name, Job: job.Key(), Owner: owner, Generation: plan.Generation, Hash: o.Hash, Object: o}
		r.UID = berth.UID{Index: owner.Index*1000 + uint64(slices.Index(berth.StreamKinds, kind)), Ordinal: uint32(i)}
		out = append(out, r)
	}
	return out
}

func (w *world) routes() {
	for _, r := range streams.Routes(w.resources(berth.KindExport), w.resources(berth.KindImport)) {
		fmt.Fprintf(&w.out, "%s -> %s by %s", r.Export.Name, r.Import.Name, r.By)
		if f := r.Filter(); f != "" {
			fmt.Fprintf(&w.out, ", filter %s", f)
		}
		if c := r.Congestion(); c != berth.CongestionWait {
			fmt.Fprintf(&w.out, ", %s", c)
		}
		w.out.WriteByte('\n')
	}
}
