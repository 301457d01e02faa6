package admit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// streamJob is a stream job of two groups, one of them in a region.
func streamJob(t testing.TB) *berth.Job {
	return mustDecode(t, `{"ID": "j", "Type": "stream",
		"Stream": {
			"HostPools": [{"Name": "p", "Tags": ["ssd"], "Size": 2}], "Regions": [{"Name": "r", "Groups": ["b"], "Width": 2}],
			"Streams": [{"Name": "s", "From": "a.o", "To": ["b.i"]}],
			"Exports": [{"Name": "e", "From": "a.o", "Properties": {"n": 1, "f": 0.5, "list": ["eu", "us"], "on": true}}],
			"Imports": [{"Name": "m", "Into": "b.j", "StreamID": "x", "Filter": "n > 1"}]},
		"TaskGroups": [
			{"Name": "a", "Stream": {"Outputs": [{"Name": "o"}], "Placement": {"Pool": "p", "PoolHost": 0}},
				"Tasks": [{"Name": "t", "Driver": "mock_driver", "Connectivity": {"ChangeMode": "signal", "ChangeSignal": "SIGHUP"}}]},
			{"Name": "b", "Networks": [{"DynamicPorts": [{"Label": "i"}, {"Label": "j"}]}],
				"Stream": {"Inputs": [{"Name": "i", "Port": "i"}, {"Name": "j", "Port": "j"}], "LiveRewire": true, "Policy": {"RestartDeleted": false}},
				"Tasks": [{"Name": "t", "Driver": "mock_driver"}]}]}`)
}

// own gives a job blocks that a test can change.
func own(j *berth.Job) *berth.Job {
	out, s := *j, *j.Stream
	out.Stream = &s
	out.TaskGroups = slices.Clone(j.TaskGroups)
	for i, g := range out.TaskGroups {
		h, gs := *g, *g.Stream
		h.Stream = &gs
		out.TaskGroups[i] = &h
	}
	return &out
}

// What a server shows of a stream job can be sent to it again, and is the same.
func TestStreamJobComesBack(t *testing.T) {
	j := streamJob(t)
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j, mustDecode(t, string(text))); diff != "" {
		t.Error(diff)
	}
	if err := j.Whole(); err != nil {
		t.Error(err)
	}
}

// An ordinary job does not show that there are stream jobs.
func TestOrdinaryJobsAreUnchangedInShape(t *testing.T) {
	text, err := json.Marshal(validJob(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Stream", "Connectivity"} {
		if strings.Contains(string(text), word) {
			t.Errorf("%s is in %s", word, text)
		}
	}
}

// Rules that take more than a job file's worth of text to break, and jobs that
// came by no door.
func TestValidateStream(t *testing.T) {
	wide := func(n int) []berth.RegionSpec {
		return []berth.RegionSpec{{Name: "r", Groups: []string{"b"}, Width: n}}
	}
	for _, tt := range []struct {
		name  string
		spoil func(j *berth.Job)
		want  string
	}{
		{"nothing", func(j *berth.Job) {}, ""},
		{"no blocks", func(j *berth.Job) { j.Stream = nil }, "job: a job of type stream, or a group of it, lacks its stream block"},
		{"a group without blocks", func(j *berth.Job) { j.TaskGroups[0].Stream = nil }, "job: a job of type stream, or a group of it, lacks its stream block"},
		{"another type", func(j *berth.Job) {
			j.Type = berth.TypeService
			j.Stream, j.TaskGroups[0].Stream, j.TaskGroups[1].Stream = nil, nil, nil
		}, "job.group[a].task[t].connectivity: is for jobs of type stream, not for those of type service"},
		{"too many channels", func(j *berth.Job) { j.Stream.Regions = wide(1001); j.TaskGroups[1].Count = 1000 }, "job.parallel_region[r].width: 1001 is out of range; allowed are 1 to 1000"},
		{"a count of its own", func(j *berth.Job) { j.TaskGroups[1].Count = 3 },
			`job.group[b].count: 3 is not allowed in a job of type stream; allowed is 2: the width of parallel_region "r" says how many`},
		{"a count without a region", func(j *berth.Job) { j.TaskGroups[0].Count = 0 },
			`job.group[a].count: 0 is not allowed in a job of type stream; allowed is 1: it is in no parallel_region`},
		{"too many elements", func(j *berth.Job) {
			j.Stream.Regions = nil
			for i := range 6 {
				g := *j.TaskGroups[0]
				g.Name, g.Count = fmt.Sprint("g", i), 1000
				j.TaskGroups = append(j.TaskGroups, &g)
				j.Stream.Regions = append(j.Stream.Regions, berth.RegionSpec{Name: g.Name, Groups: []string{g.Name}, Width: 1000})
			}
			j.TaskGroups[1].Count = 1
		}, "job.parallel_region: the groups have 6002 processing elements together; allowed are 5000"},
		{"too many connections", func(j *berth.Job) {
			j.Stream.Regions = []berth.RegionSpec{{Name: "r", Groups: []string{"a"}, Width: 300}, {Name: "q", Groups: []string{"b"}, Width: 300}}
			j.TaskGroups[0].Count, j.TaskGroups[1].Count = 300, 300
		}, "job.stream: the streams join 90000 pairs of ports; allowed are 50000"},
		{"channel by channel it is not", func(j *berth.Job) {
			j.Stream.Regions = []berth.RegionSpec{{Name: "r", Groups: []string{"a", "b"}, Width: 300}}
			j.TaskGroups[0].Count, j.TaskGroups[1].Count = 300, 300
		}, ""},
		{"too many exports", func(j *berth.Job) {
			j.Stream.Regions = []berth.RegionSpec{{Name: "r", Groups: []string{"a"}, Width: 1000}}
			j.TaskGroups[0].Count, j.TaskGroups[1].Count = 1000, 1
			x := j.Stream.Exports[0]
			j.Stream.Exports = nil
			for i := range 11 {
				x.Name = fmt.Sprint("e", i)
				j.Stream.Exports = append(j.Stream.Exports, x)
			}
		}, "job: 11000 exports or imports, counted for each processing element, are too many; allowed are 10000"},
		{"too many tags", func(j *berth.Job) { j.Stream.HostPools[0].Tags = make([]string, 101) }, "job.host_pool[p].tags: 101 are too many; allowed are 100"},
		{"too many properties", func(j *berth.Job) {
			j.Stream.Exports = slices.Clone(j.Stream.Exports)
			j.Stream.Exports[0].Properties = map[string]any{}
			for i := range 101 {
				j.Stream.Exports[0].Properties[fmt.Sprint("p", i)] = int64(i)
			}
		}, "job.export[e].properties: 101 are too many; allowed are 100"},
		{"a pool's node that is not there", func(j *berth.Job) { n := 2; j.TaskGroups[0].Stream.Placement.PoolHost = &n },
			"job.group[a].placement.pool_host: 2 is out of range; allowed are 0 to 1"},
		{"a long expression", func(j *berth.Job) {
			j.Stream.Imports = slices.Clone(j.Stream.Imports)
			j.Stream.Imports[0].Filter = strings.Repeat("x", 4097)
		}, `job.import[m].filter: "` + strings.Repeat("x", 128) + `…": the expression has 4097 bytes; allowed are 4096`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := own(streamJob(t))
			tt.spoil(j)
			var got []string
			for _, p := range Validate(j) {
				got = append(got, p.Path+": "+p.Text)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A job from the log that lacks what a stream job has is refused.
func TestWholeStream(t *testing.T) {
	for _, spoil := range []func(j *berth.Job){
		func(j *berth.Job) { j.Stream = nil }, func(j *berth.Job) { j.TaskGroups[1].Stream = nil }, func(j *berth.Job) { j.Type = berth.TypeBatch },
	} {
		j := own(streamJob(t))
		if spoil(j); j.Whole() == nil {
			t.Errorf("%s with %v", j.Type, j.Stream)
		}
	}
}

func TestStreamWarnings(t *testing.T) {
	j := own(streamJob(t))
	if w := Warnings(j); len(w) > 0 {
		t.Errorf("a fine job is warned of: %q", w)
	}
	j.Stream.Streams, j.Stream.Exports, j.Stream.Imports = nil, nil, nil
	want := []string{
		`group "a": output "o" feeds no stream and no export`,
		`group "b": input "i" is fed by no stream and no import`, `group "b": input "j" is fed by no stream and no import`,
	}
	if diff := cmp.Diff(want, Warnings(j)); diff != "" {
		t.Error(diff)
	}
}

// Conditions are told to exclude each other exactly if no spreading of the
// processing elements over any nodes meets them: tried with every one.
func TestTogetherIsExact(t *testing.T) {
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		j := &berth.Job{Type: berth.TypeStream, Stream: &berth.StreamSpec{}}
		widths := map[string]int{}
		total := 0
		for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
			words := func(of []string) []string {
				return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID).Draw(t, "tokens")
			}
			g := &berth.TaskGroup{Name: string(rune('a' + i)), Stream: &berth.StreamGroup{Placement: berth.PEPlacement{
				Colocate: words([]string{"x", "y"}), Exlocate: words([]string{"u", "v"}), Isolated: rapid.IntRange(0, 3).Draw(t, "isolated") == 0,
			}}}
			widths[g.Name] = rapid.IntRange(1, 2).Draw(t, "width")
			total += widths[g.Name]
			j.TaskGroups = append(j.TaskGroups, g)
		}
		var c checker
		c.colocation("job", j, widths)
		var all []*berth.PEPlacement
		for _, g := range j.TaskGroups {
			for range widths[g.Name] {
				all = append(all, &g.Stream.Placement)
			}
		}
		possible := spreadable(all, make([]int, 0, total))
		if possible != (len(c.problems) == 0) {
			t.Fatalf("possible: %v, told: %v", possible, c.problems)
		}
		seen[possible]++
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("seen: %v", seen)
	}
}

// spreadable tries every way to put processing elements on as many nodes as
// there are of them.
func spreadable(all []*berth.PEPlacement, nodes []int) bool {
	if len(nodes) == len(all) {
		return true
	}
	me := all[len(nodes)]
	shared := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
	}
	for n := range all {
		fits := true
		for i, at := range nodes {
			other := all[i]
			switch {
			case at == n && (me.Isolated || other.Isolated || shared(me.Exlocate, other.Exlocate)),
				at != n && shared(me.Colocate, other.Colocate):
				fits = false
			}
		}
		if fits && spreadable(all, append(nodes, n)) {
			return true
		}
	}
	return false
}
