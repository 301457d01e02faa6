package streams_test

import (
	"fmt"
	"slices"
	"strconv"

	"berth/internal/admit"
	"berth/internal/decode"

	"pgregory.net/rapid"

	"berth"
)

// draft is a stream job as it is drawn, in parts that can be changed.
type draft struct {
	groups  []group
	regions []region
	streams []edge
	exports []crossing
	imports []crossing
	pools   []string
}

type group struct {
	name     string
	in, out  int
	live     bool
	pool     string
	env      string
	isolated bool
}

type region struct {
	name   string
	groups []string
	width  int
}

type edge struct{ from, to string }

type crossing struct {
	port string
	id   string
	sub  string
	app  string
	flag bool // of exports: no filters; of imports: a filter
	prop map[string]any
}

var (
	ids  = []string{"s", "t"}
	subs = []string{"n > 1", `kind == "a" || n == 0`, "missing", `"eu" in list`, "true", "n / (n - 1) > 0", "!flag",
		`kind == "b" && n < 2`, "n == 1.0 && true == flag", "n == 0 && list == 1"}
)

func drawDraft(t *rapid.T) *draft {
	d := &draft{}
	some := func(n int) int { return rapid.IntRange(0, n).Draw(t, "n") }
	yes := func() bool { return rapid.Bool().Draw(t, "yes") }
	if yes() {
		d.pools = []string{"p"}
	}
	free := []string{}
	for i := range 1 + some(3) {
		g := group{name: string(rune('a' + i)), in: some(2), out: some(2), live: yes(), env: "1"}
		if len(d.pools) > 0 && yes() {
			g.pool = d.pools[0]
		}
		d.groups = append(d.groups, g)
		free = append(free, g.name)
	}
	for i := range some(2) {
		n := min(1+some(1), len(free))
		if n > 0 {
			d.regions = append(d.regions, region{"r" + strconv.Itoa(i), slices.Clone(free[:n]), 1 + some(3)})
			free = free[n:]
		}
	}
	in, out := d.ports()
	seen := map[edge]bool{}
	for range some(5) {
		if len(in) > 0 && len(out) > 0 {
			e := edge{rapid.SampledFrom(out).Draw(t, "from"), rapid.SampledFrom(in).Draw(t, "to")}
			if !seen[e] {
				d.streams = append(d.streams, e)
			}
			seen[e] = true
		}
	}
	for range some(2) {
		if len(out) > 0 {
			d.exports = append(d.exports, drawExport(t, rapid.SampledFrom(out).Draw(t, "port")))
		}
		if len(in) > 0 {
			d.imports = append(d.imports, drawImport(t, rapid.SampledFrom(in).Draw(t, "port")))
		}
	}
	return d
}

func drawExport(t *rapid.T, port string) crossing {
	c := crossing{port: port, flag: rapid.Bool().Draw(t, "flag")}
	if rapid.Bool().Draw(t, "named") {
		c.id = rapid.SampledFrom(ids).Draw(t, "id")
		return c
	}
	c.prop = map[string]any{"n": decode.Number(strconv.Itoa(rapid.IntRange(0, 2).Draw(t, "n")))}
	if rapid.Bool().Draw(t, "more") {
		c.prop["kind"], c.prop["flag"] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"), rapid.Bool().Draw(t, "flag")
		c.prop["list"] = []any{"eu", "us"}
	}
	return c
}

func drawImport(t *rapid.T, port string) crossing {
	c := crossing{port: port, flag: rapid.Bool().Draw(t, "flag")}
	if which := rapid.IntRange(0, 2).Draw(t, "which"); which != 1 {
		c.id, c.app = rapid.SampledFrom(ids).Draw(t, "id"), rapid.SampledFrom([]string{"", "app", "other"}).Draw(t, "app")
		if which == 0 {
			return c
		}
	}
	c.sub = rapid.SampledFrom(subs).Draw(t, "sub")
	return c
}

// ports returns the inputs and outputs of all groups.
func (d *draft) ports() (in, out []string) {
	for _, g := range d.groups {
		for i := range g.in {
			in = append(in, fmt.Sprintf("%s.i%d", g.name, i))
		}
		for i := range g.out {
			out = append(out, fmt.Sprintf("%s.o%d", g.name, i))
		}
	}
	return in, out
}

func (d *draft) group(name string) *group {
	for i := range d.groups {
		if d.groups[i].name == name {
			return &d.groups[i]
		}
	}
	return nil
}

func (d *draft) region(group string) *region {
	for i := range d.regions {
		if slices.Contains(d.regions[i].groups, group) {
			return &d.regions[i]
		}
	}
	return nil
}

// width returns how many instances a group has.
func (d *draft) width(group string) int {
	if r := d.region(group); r != nil {
		return r.width
	}
	return 1
}

// job decodes the draft, which must be a valid job. Shuffle puts lists whose
// order means nothing into another one.
func (d *draft) job(t rapid.TB, id string, shuffle func([]any)) *berth.Job {
	t.Helper()
	if shuffle == nil {
		shuffle = func([]any) {}
	}
	var groups, regions, streams, exports, imports, pools []any
	for i := range d.groups {
		groups = append(groups, d.groups[i].tree(shuffle))
	}
	for _, r := range d.regions {
		names := list(r.groups)
		shuffle(names)
		regions = append(regions, decode.Tree{"Name": r.name, "Width": decode.Number(strconv.Itoa(r.width)), "Groups": names})
	}
	for i, e := range d.streams {
		streams = append(streams, decode.Tree{"Name": "s" + strconv.Itoa(i), "From": e.from, "To": []any{e.to}})
	}
	for i, c := range d.exports {
		exports = append(exports, decode.Tree{"Name": "e" + strconv.Itoa(i), "From": c.port, "StreamID": c.id, "Properties": decode.Tree(c.prop), "AllowFilter": !c.flag})
	}
	for i, c := range d.imports {
		filter := ""
		if c.flag {
			filter = "x > 1"
		}
		imports = append(imports, decode.Tree{"Name": "i" + strconv.Itoa(i), "Into": c.port, "StreamID": c.id, "Subscription": c.sub, "Application": c.app, "Filter": filter})
	}
	for _, p := range d.pools {
		tags := []any{"a", "b"}
		shuffle(tags)
		pools = append(pools, decode.Tree{"Name": p, "Tags": tags})
	}
	for _, l := range [][]any{regions, streams, exports, imports, pools} {
		shuffle(l)
	}
	j, err := admit.DecodeJob(decode.Tree{
		"ID": id, "Type": berth.TypeStream, "TaskGroups": groups, "Stream": decode.Tree{
			"Application": decode.Tree{"Name": "app"}, "Regions": regions, "Streams": streams, "Exports": exports, "Imports": imports, "HostPools": pools,
		},
	}, admit.FromJSON)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (g *group) tree(shuffle func([]any)) decode.Tree {
	var ports, in, out []any
	for i := range g.in {
		name := "i" + strconv.Itoa(i)
		ports = append(ports, decode.Tree{"Label": name})
		in = append(in, decode.Tree{"Name": name, "Port": name})
	}
	for i := range g.out {
		out = append(out, decode.Tree{"Name": "o" + strconv.Itoa(i)})
	}
	shuffle(in)
	shuffle(out)
	cons := []any{decode.Tree{"LTarget": "${attr.a}", "RTarget": "1"}, decode.Tree{"LTarget": "${attr.b}", "RTarget": "2"}}
	shuffle(cons)
	return decode.Tree{
		"Name": g.name, "Networks": []any{decode.Tree{"DynamicPorts": ports}}, "Constraints": cons,
		"Stream": decode.Tree{"Inputs": in, "Outputs": out, "LiveRewire": g.live, "Placement": decode.Tree{"Pool": g.pool, "Isolated": g.isolated}},
		"Tasks":  []any{decode.Tree{"Name": "t", "Driver": "mock_driver", "Env": decode.Tree{"V": g.env, "W": "w"}}},
	}
}
