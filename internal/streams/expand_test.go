package streams_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"berth"
	"berth/internal/msgpack"
	"berth/internal/streams"
)

func expand(t rapid.TB, j *berth.Job, before *berth.StreamPlan) *berth.StreamPlan {
	t.Helper()
	p, err := streams.Expand(j, before)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A plan follows from the job and the plan before it, wherever blocks stand, and
// is what a slow reading of the job says.
func TestPlansFollowFromTheJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		first := expand(t, d.job(t, "j", nil), nil)
		seed := rapid.Uint64().Draw(t, "seed")
		shuffled := expand(t, d.job(t, "j", shuffle(seed)), nil)
		if diff := cmp.Diff(first, shuffled); diff != "" {
			t.Fatalf("the order of blocks says something: %s", diff)
		}
		sound(t, d, first)

		again := expand(t, d.job(t, "j", shuffle(seed)), first)
		slices.Reverse(d.groups)
		turned := expand(t, d.job(t, "j", nil), first)
		for _, p := range []*berth.StreamPlan{again, turned} {
			if p.Generation != first.Generation+1 || p.NextPE != first.NextPE {
				t.Fatalf("generation %d, next %d after generation %d, next %d", p.Generation, p.NextPE, first.Generation, first.NextPE)
			}
			if diff := cmp.Diff(first.Objects, p.Objects, cmp.Comparer(sameObject)); diff != "" {
				t.Fatalf("an unchanged job has another plan: %s", diff)
			}
		}
	})
}

func sameObject(a, b berth.StreamObject) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Hash == b.Hash && (a.PE == nil || *a.PE == *b.PE)
}

func shuffle(seed uint64) func([]any) {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(l []any) { r.Shuffle(len(l), func(i, k int) { l[i], l[k] = l[k], l[i] }) }
}

// sound compares the plan with a plain reading of the draft.
func sound(t rapid.TB, d *draft, p *berth.StreamPlan) {
	t.Helper()
	if !slices.IsSortedFunc(p.Objects, func(a, b berth.StreamObject) int {
		if k := slices.Index(berth.StreamKinds, a.Kind) - slices.Index(berth.StreamKinds, b.Kind); k != 0 {
			return k
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	}) {
		t.Fatal("the objects are not in order, or one is there twice")
	}
	want, elements := map[string]int{berth.KindHostPool: len(d.pools), berth.KindRegion: len(d.regions)}, map[string]int{}
	for _, g := range d.groups {
		for i := range d.width(g.name) {
			elements[berth.AllocName("j", g.name, uint32(i))] = len(elements)
		}
	}
	want[berth.KindPE], want[berth.KindConfig], want[berth.KindEndpoint] = len(elements), len(elements), len(elements)
	for _, c := range d.exports {
		g, _ := berth.SplitPort(c.port)
		want[berth.KindExport] += d.width(g)
	}
	for _, c := range d.imports {
		g, _ := berth.SplitPort(c.port)
		want[berth.KindImport] += d.width(g)
	}
	for _, kind := range berth.StreamKinds {
		if n := len(p.Of(kind)); n != want[kind] {
			t.Fatalf("%d of kind %s; %d are wanted", n, kind, want[kind])
		}
	}
	for name, id := range elements {
		o := p.Object(berth.KindPE, name)
		if o == nil || o.PE.ID != id || o.PE.ContentID != p.Object(berth.KindConfig, name).Config.ContentID || o.PE.ContentID == "" {
			t.Fatalf("%s is %+v; the ID is to be %d", name, o, id)
		}
	}
	wired(t, d, p)
}

// wired compares what is joined with what the streams say.
func wired(t rapid.TB, d *draft, p *berth.StreamPlan) {
	t.Helper()
	want := map[string]bool{}
	for _, e := range d.streams {
		from, output := berth.SplitPort(e.from)
		to, input := berth.SplitPort(e.to)
		for i := range d.width(from) {
			for k := range d.width(to) {
				if r := d.region(from); r != nil && r == d.region(to) && i != k {
					continue
				}
				want[fmt.Sprintf("%s[%d].%s %s[%d].%s", from, i, output, to, k, input)] = true
			}
		}
	}
	forth, back := map[string]bool{}, map[string]bool{}
	for _, o := range p.Of(berth.KindConfig) {
		me := o.Name[len("j."):]
		for _, out := range o.Config.Outputs {
			for _, x := range out.To {
				forth[fmt.Sprintf("%s.%s %s.%s", me, out.Name, x.PE[len("j."):], x.Port)] = true
			}
		}
		for _, in := range o.Config.Inputs {
			for _, x := range in.From {
				back[fmt.Sprintf("%s.%s %s.%s", x.PE[len("j."):], x.Port, me, in.Name)] = true
			}
		}
	}
	if diff := cmp.Diff(want, forth); diff != "" {
		t.Fatalf("outputs: %s", diff)
	}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Fatalf("inputs: %s", diff)
	}
}

// Whatever changes from generation to generation: an ID stays with its group
// and index while that is there without a gap, and is given once only.
func TestNumbersAreGivenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		var plan *berth.StreamPlan
		holder := map[int]string{} // who had an ID, for ever
		had := map[string]int{}    // who has one now
		for generation := range rapid.IntRange(2, 6).Draw(t, "generations") {
			plan = expand(t, d.job(t, "j", nil), plan)
			if plan.Generation != uint64(generation) {
				t.Fatalf("generation %d is called %d", generation, plan.Generation)
			}
			now := map[string]int{}
			for _, o := range plan.Of(berth.KindPE) {
				id := o.PE.ID
				if before, ok := had[o.Name]; ok && before != id {
					t.Fatalf("%s was %d and is %d", o.Name, before, id)
				}
				if other, ok := holder[id]; ok && (other != o.Name || !has(had, o.Name)) {
					t.Fatalf("%d was %s and is %s", id, other, o.Name)
				}
				if id >= plan.NextPE {
					t.Fatalf("%s has %d; %d is said to be free", o.Name, id, plan.NextPE)
				}
				holder[id], now[o.Name] = o.Name, id
			}
			had = now
			for i := range d.regions {
				d.regions[i].width = rapid.IntRange(1, 5).Draw(t, "width")
			}
		}
	})
}

func has(m map[string]int, k string) bool { _, ok := m[k]; return ok }

// A width that changes launches its channels anew, and who is joined with them,
// unless live_rewire: nobody else.
func TestWidthLaunchesNeighboursAlone(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		if len(d.regions) == 0 {
			return
		}
		before := expand(t, d.job(t, "j", nil), nil)
		r := &d.regions[rapid.IntRange(0, len(d.regions)-1).Draw(t, "region")]
		old := r.width
		r.width = rapid.IntRange(1, 5).Draw(t, "width")
		after := expand(t, d.job(t, "j", nil), before)
		for _, o := range after.Of(berth.KindPE) {
			b := before.Object(berth.KindPE, o.Name)
			in := slices.Contains(r.groups, o.PE.Group)
			if isNew := in && int(o.PE.Index) >= old; isNew != (b == nil) {
				t.Fatalf("%s: new is %v", o.Name, b == nil)
			} else if isNew {
				continue
			}
			anew := old != r.width && (in || !d.group(o.PE.Group).live && d.neighbour(o.PE.Group, r.groups))
			if got := o.PE.ContentID != b.PE.ContentID; got != anew {
				t.Fatalf("width %d to %d of %v: %s has another content: %v; want %v", old, r.width, r.groups, o.Name, got, anew)
			}
			if anew {
				changed++
			}
		}
	})
	if changed == 0 {
		t.Error("nothing was launched anew")
	}
}

// neighbour reports whether a stream joins the group with one of the others.
func (d *draft) neighbour(group string, others []string) bool {
	return slices.ContainsFunc(d.streams, func(e edge) bool {
		from, _ := berth.SplitPort(e.from)
		to, _ := berth.SplitPort(e.to)
		return from == group && slices.Contains(others, to) || to == group && slices.Contains(others, from)
	})
}

// A group that changes launches its own processing elements anew, and no others.
func TestChangesLaunchTheirGroupAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		before := expand(t, d.job(t, "j", nil), nil)
		g := &d.groups[rapid.IntRange(0, len(d.groups)-1).Draw(t, "group")]
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			g.env = "2"
		case 1:
			g.isolated = true
		case 2:
			g.out++
		}
		after := expand(t, d.job(t, "j", nil), before)
		for _, o := range after.Of(berth.KindPE) {
			b := before.Object(berth.KindPE, o.Name)
			if anew := o.PE.ContentID != b.PE.ContentID; anew != (o.PE.Group == g.name) {
				t.Fatalf("%s was changed; %s has another content: %v", g.name, o.Name, anew)
			}
			if c := after.Object(berth.KindConfig, o.Name); c.Config.ContentID != o.PE.ContentID {
				t.Fatalf("%s: the config is of another content", o.Name)
			}
		}
	})
}

// Expand touches neither the job nor the plan before.
func TestExpandChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		j := d.job(t, "j", nil)
		before := expand(t, j, nil)
		other, plan := d.job(t, "j", nil), expand(t, d.job(t, "j", nil), nil)
		expand(t, j, before)
		if diff := cmp.Diff(other, j) + cmp.Diff(plan, before); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A job and a plan that were in the log say the same as before.
func TestPlansSurviveTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDraft(t)
		j := d.job(t, "j", nil)
		plan := expand(t, j, nil)
		logged, before := &berth.Job{}, &berth.StreamPlan{}
		carry(t, j, logged)
		carry(t, plan, before)
		if diff := cmp.Diff(plan, before, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(plan, expand(t, logged, nil), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		d.groups[0].env = "2"
		j = d.job(t, "j", nil)
		if diff := cmp.Diff(expand(t, j, plan), expand(t, j, before), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

var storage = msgpack.NewStorage()

// carry takes a value through msgpack, as the replicated log does.
func carry(t rapid.TB, v, into any) {
	t.Helper()
	b, err := storage.Append(nil, v)
	if err == nil {
		err = storage.Decode(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What no valid job says is an error, never a panic.
func TestExpandRefuses(t *testing.T) {
	d := &draft{groups: []group{{name: "a", in: 1, out: 1}}}
	j := d.job(t, "j", nil)
	for what, spoil := range map[string]func(*berth.Job){
		"no blocks":      func(j *berth.Job) { j.Stream = nil },
		"unknown output": func(j *berth.Job) { j.Stream.Streams = []berth.StreamEdge{{From: "a.nope", To: []string{"a.i0"}}} },
		"unknown input":  func(j *berth.Job) { j.Stream.Streams = []berth.StreamEdge{{From: "a.o0", To: []string{"a.nope"}}} },
		"twins":          func(j *berth.Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) },
	} {
		bad := *j
		s := *j.Stream
		bad.Stream = &s
		spoil(&bad)
		if p, err := streams.Expand(&bad, nil); err == nil || berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %v, %v", what, p, err)
		}
	}
}

func BenchmarkExpand(b *testing.B) {
	for _, n := range []int{3, 998} {
		d := &draft{
			groups:  []group{{name: "source", out: 1}, {name: "transform", in: 1, out: 1}, {name: "sink", in: 1}},
			regions: []region{{"r", []string{"transform"}, n}},
			streams: []edge{{"source.o0", "transform.i0"}, {"transform.o0", "sink.i0"}},
			exports: []crossing{{port: "transform.o0", id: "s"}},
		}
		j := d.job(b, "j", nil)
		b.Run(fmt.Sprintf("elements=%d", n+2), func(b *testing.B) {
			before := expand(b, j, nil)
			b.ReportAllocs()
			for b.Loop() {
				expand(b, j, before)
			}
		})
	}
}
