package cow

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type pair struct {
	k uint64
	s uint32
}

func pairs(t *Tree[uint64]) (out []pair) {
	for k, s := range t.All() {
		out = append(out, pair{k, s})
	}
	return out
}

// A tree is a sorted set of pairs, and a copy of it never changes.
func TestTreeIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree Tree[uint64]
		model := map[pair]bool{}
		type snap struct {
			tree Tree[uint64]
			want []pair
		}
		var snaps []snap
		sorted := func() []pair {
			out := make([]pair, 0, len(model))
			for p := range model {
				out = append(out, p)
			}
			slices.SortFunc(out, func(a, b pair) int { return cmp.Or(cmp.Compare(a.k, b.k), cmp.Compare(a.s, b.s)) })
			return out
		}
		edit := uint64(1)
		keys := rapid.Uint64Range(0, rapid.SampledFrom([]uint64{3, 100, 5000}).Draw(t, "keys"))
		up := rapid.Bool().Draw(t, "growing keys")
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			high := keys.Draw(t, "key") + 1
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				for range rapid.IntRange(1, 300).Draw(t, "n") {
					p := pair{r.Uint64N(high), r.Uint32N(3)}
					if up {
						p = pair{uint64(step)*1000 + uint64(len(model)), 0}
					}
					if tree.Add(edit, p.k, p.s) == model[p] {
						t.Fatalf("Add(%v) disagrees", p)
					}
					model[p] = true
				}
			case 2:
				all := sorted()
				n := min(len(all), rapid.IntRange(1, 400).Draw(t, "n"))
				from := r.IntN(len(all) - n + 1)
				for _, p := range all[from : from+n] {
					if !tree.Remove(edit, p.k, p.s) || tree.Has(p.k, p.s) {
						t.Fatalf("Remove(%v) missed", p)
					}
					delete(model, p)
				}
				if tree.Remove(edit, high+1<<40, 0) {
					t.Fatal("removed what was not there")
				}
			case 3:
				snaps = append(snaps, snap{tree, sorted()})
				edit++
			}
			check(t, &tree)
		}
		snaps = append(snaps, snap{tree, sorted()})
		for _, s := range snaps {
			if got := pairs(&s.tree); !slices.Equal(got, s.want) || s.tree.Len() != len(s.want) {
				t.Fatalf("got %v\nwant %v", got, s.want)
			}
			scans(t, &s.tree, s.want, keys)
		}
	})
}

// scans compares the ordered scans with the plain list.
func scans(t *rapid.T, tree *Tree[uint64], want []pair, keys *rapid.Generator[uint64]) {
	from := pair{keys.Draw(t, "from"), rapid.Uint32Range(0, 3).Draw(t, "slot")}
	i := slices.IndexFunc(want, func(p pair) bool { return !less(p.k, p.s, from.k, from.s) })
	if i < 0 {
		i = len(want)
	}
	var got []pair
	for k, s := range tree.From(from.k, from.s) {
		got = append(got, pair{k, s})
	}
	if !slices.Equal(got, want[i:]) {
		t.Fatalf("From(%v) = %v, want %v", from, got, want[i:])
	}
	down := slices.Clone(want)
	slices.Reverse(down)
	got = nil
	for k, s := range tree.Back() {
		got = append(got, pair{k, s})
	}
	if !slices.Equal(got, down) {
		t.Fatal("Back is not All reversed")
	}
	j := slices.IndexFunc(down, func(p pair) bool { return !less(from.k, from.s, p.k, p.s) })
	if j < 0 {
		j = len(down)
	}
	got = nil
	for k, s := range tree.BackFrom(from.k, from.s) {
		got = append(got, pair{k, s})
	}
	if !slices.Equal(got, down[j:]) {
		t.Fatalf("BackFrom(%v) = %v, want %v", from, got, down[j:])
	}
}

// check walks the blocks and asserts their shape.
func check(t *rapid.T, tree *Tree[uint64]) {
	if tree.root == nil {
		return
	}
	depth := -1
	var walk func(b *block[uint64], d int, lo, hi *pair)
	walk = func(b *block[uint64], d int, lo, hi *pair) {
		if b.n < 1 || b.n > fan {
			t.Fatalf("a block of %d", b.n)
		}
		for i := range b.n {
			p := pair{b.keys[i], b.slots[i]}
			if (i > 0 || b.kids == nil) && (lo != nil && less(p.k, p.s, lo.k, lo.s) || hi != nil && !less(p.k, p.s, hi.k, hi.s)) {
				t.Fatalf("%v outside its block", p)
			}
			if b.kids != nil {
				l, h := lo, hi
				if i > 0 {
					l = &p
				}
				if i+1 < b.n {
					h = &pair{b.keys[i+1], b.slots[i+1]}
				}
				walk(b.kids[i], d+1, l, h)
			}
		}
		if b.kids == nil {
			if depth >= 0 && d != depth {
				t.Fatal("leaves at different depths")
			}
			depth = d
		}
	}
	walk(tree.root, 0, nil, nil)
}

// Keys that only grow leave full blocks behind.
func TestTreeFillsWhenGrowing(t *testing.T) {
	var tree Tree[uint64]
	for i := range uint64(fan * fan) {
		tree.Add(1, i, 0)
	}
	blocks := 0
	var count func(b *block[uint64])
	count = func(b *block[uint64]) {
		if b.kids == nil {
			blocks++
			return
		}
		for i := range b.n {
			count(b.kids[i])
		}
	}
	count(tree.root)
	if blocks > fan+1 {
		t.Errorf("%d leaves hold what %d could", blocks, fan)
	}
}

// A vector is a map from places to values, and a copy of it never changes.
func TestVecIsAnArray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Vec[int]
		model := map[uint32]int{}
		type snap struct {
			v    Vec[int]
			want map[uint32]int
		}
		var snaps []snap
		place := rapid.OneOf(rapid.Uint32Range(0, 100), rapid.Uint32Range(0, 100_000), rapid.Uint32())
		edit := uint64(1)
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.IntRange(0, 4).Draw(t, "do") == 0 {
				c := map[uint32]int{}
				for k, x := range model {
					c[k] = x
				}
				snaps = append(snaps, snap{v, c})
				edit++
				continue
			}
			i, x := place.Draw(t, "place"), rapid.Int().Draw(t, "value")
			v.Set(edit, i, x)
			model[i] = x
		}
		snaps = append(snaps, snap{v, model})
		for _, s := range snaps {
			for i, x := range s.want {
				if got := s.v.Get(i); got != x {
					t.Fatalf("[%d] = %d, want %d", i, got, x)
				}
			}
			seen := map[uint32]int{}
			for at, run := range s.v.Runs(1<<32 - 1) {
				for i, x := range run {
					if x != 0 {
						seen[at+uint32(i)] = x
					}
				}
			}
			for i, x := range s.want {
				if i != 1<<32-1 && seen[i] != x {
					t.Fatalf("Runs misses [%d]", i)
				}
			}
			if i := place.Draw(t, "absent"); s.want[i] == 0 && s.v.Get(i) != 0 {
				t.Fatalf("[%d] holds a value nobody set", i)
			}
		}
	})
}

func BenchmarkTreeAdd(b *testing.B) {
	for _, perEdit := range []int{1, 100, 10000} {
		b.Run(fmt.Sprint("perEdit=", perEdit), func(b *testing.B) {
			var t Tree[uint64]
			for i := range 1_000_000 {
				t.Add(1, rand.Uint64(), uint32(i))
			}
			b.ResetTimer()
			b.ReportAllocs()
			for i := range b.N {
				t.Add(uint64(2+i/perEdit), rand.Uint64(), 1)
			}
		})
	}
}

func BenchmarkTreeHas(b *testing.B) {
	var t Tree[uint64]
	keys := make([]uint64, 1_000_000)
	for i := range keys {
		keys[i] = rand.Uint64()
		t.Add(1, keys[i], 0)
	}
	b.ResetTimer()
	for i := range b.N {
		if !t.Has(keys[i%len(keys)], 0) {
			b.Fatal("lost")
		}
	}
}
