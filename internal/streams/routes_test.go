package streams_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth"
	"berth/internal/decode"
	"berth/internal/expr"
	"berth/internal/streams"
)

// Routes are what a comparison of every export with every import finds, in
// whatever order they are given.
func TestRoutesAreThePlainOnes(t *testing.T) {
	found := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		var exports, imports []*berth.Object
		for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
			j := drawDraft(t).job(t, "j"+strconv.Itoa(i%3), nil)
			j.Namespace = rapid.SampledFrom([]string{"default", "apart"}).Draw(t, "namespace")
			s := *j.Stream
			j.Stream = &s
			s.Application.Name = rapid.SampledFrom([]string{"app", "other"}).Draw(t, "app")
			s.Application.Scope = rapid.SampledFrom([]string{berth.DefaultScope, "s"}).Draw(t, "scope")
			plan := expand(t, j, nil)
			owner := berth.UID{Index: uint64(i + 1)}
			exports = append(exports, resources(j, plan, owner, berth.KindExport)...)
			imports = append(imports, resources(j, plan, owner, berth.KindImport)...)
		}
		got := tell(streams.Routes(exports, imports))
		want := plainRoutes(exports, imports)
		sorted := slices.Sorted(slices.Values(got))
		if diff := cmp.Diff(want, sorted); diff != "" {
			t.Fatalf("-plain +ours: %s", diff)
		}
		mixed := func(all []*berth.Object) []*berth.Object {
			if len(all) == 0 {
				return nil
			}
			return rapid.Permutation(all).Draw(t, "mixed")
		}
		if diff := cmp.Diff(got, tell(streams.Routes(mixed(exports), mixed(imports)))); diff != "" {
			t.Fatalf("in another order: %s", diff)
		}
		for _, r := range streams.Routes(exports, imports) {
			found[r.By]++
		}
	})
	if found[streams.ByName] == 0 || found[streams.ByProperty] == 0 {
		t.Errorf("found: %v", found)
	}
}

func tell(routes []streams.Route) (out []string) {
	for _, r := range routes {
		out = append(out, fmt.Sprintf("%v %s %v %s %s", r.Export.UID, r.Export.Name, r.Import.UID, r.Import.Name, r.By))
	}
	return out
}

// plainRoutes is the rule as the contract has it, pair by pair.
func plainRoutes(exports, imports []*berth.Object) (out []string) {
	for _, a := range exports {
		for _, b := range imports {
			x, m := a.Object.Export, b.Object.Import.Spec
			if a.Job.Namespace != b.Job.Namespace || x.App.Scope != m.Scope || m.Filter != "" && !x.Spec.AllowFilter {
				continue
			}
			by := ""
			if m.StreamID != "" && m.StreamID == x.Spec.StreamID && (m.Application == "" || m.Application == x.App.Name) {
				by = streams.ByName
			}
			if m.Subscription != "" && x.Spec.StreamID == "" {
				e, _ := expr.Parse(m.Subscription)
				truth, err := e.Eval(func(name string) (any, bool) { v, ok := x.Spec.Properties[name]; return v, ok })
				if err == nil && truth == expr.True {
					by = streams.ByProperty
				}
			}
			if by != "" {
				out = append(out, tell([]streams.Route{{Export: a, Import: b, By: by}})...)
			}
		}
	}
	slices.Sort(out)
	return out
}

// A subscription that is none, which no door lets in, matches nothing.
func TestBrokenSubscriptionMatchesNothing(t *testing.T) {
	d := &draft{groups: []group{{name: "a", in: 1, out: 1}}, exports: []crossing{{port: "a.o0", prop: map[string]any{"n": decode.Number("1")}}}, imports: []crossing{{port: "a.i0", sub: "true"}}}
	j := d.job(t, "j", nil)
	plan := expand(t, j, nil)
	exports, imports := resources(j, plan, berth.UID{Index: 1}, berth.KindExport), resources(j, plan, berth.UID{Index: 1}, berth.KindImport)
	if n := len(streams.Routes(exports, imports)); n != 1 {
		t.Fatalf("%d routes", n)
	}
	imports[0].Object.Import.Spec.Subscription = "true &&"
	if n := len(streams.Routes(exports, imports)); n != 0 {
		t.Errorf("%d routes", n)
	}
}

// crowd are exports and imports of n jobs each.
func crowd(b *testing.B, n int, named bool) (exports, imports []*berth.Object) {
	for i := range n {
		x, m := crossing{port: "a.o0"}, crossing{port: "b.i0"}
		if named {
			x.id, m.id = "s"+strconv.Itoa(i), "s"+strconv.Itoa(i)
		} else {
			x.prop = map[string]any{"n": decode.Number(strconv.Itoa(i)), "kind": "raw", "regions": []any{"eu", "us"}}
			m.sub = fmt.Sprintf(`kind == "raw" && n == %d && "eu" in regions`, i)
		}
		d := &draft{groups: []group{{name: "a", out: 1}, {name: "b", in: 1}}, exports: []crossing{x}, imports: []crossing{m}}
		j := d.job(b, "j"+strconv.Itoa(i), nil)
		plan := expand(b, j, nil)
		exports = append(exports, resources(j, plan, berth.UID{Index: uint64(i + 1)}, berth.KindExport)...)
		imports = append(imports, resources(j, plan, berth.UID{Index: uint64(i + 1)}, berth.KindImport)...)
	}
	return exports, imports
}

func BenchmarkRoutes(b *testing.B) {
	const n = 1000
	for _, by := range []string{streams.ByName, streams.ByProperty} {
		exports, imports := crowd(b, n, by == streams.ByName)
		b.Run(by, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := len(streams.Routes(exports, imports)); got != n {
					b.Fatalf("%d routes", got)
				}
			}
		})
	}
	exports, imports := crowd(b, n, false)
	b.Run("one-exporter", func(b *testing.B) {
		for b.Loop() {
			if got := len(streams.Routes(exports[:1], imports)); got != 1 {
				b.Fatalf("%d routes", got)
			}
		}
	})
}
