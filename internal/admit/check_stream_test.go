package admit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/validate"

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

// own returns a copy of the job whose blocks a test can change.
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

// A stream job that a server returned can be sent back and is unchanged.
func TestStreamJobComesBack(t *testing.T) {
	j := streamJob(t)
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j, mustDecode(t, string(text))); diff != "" {
		t.Error(diff)
	}
	if err := validate.WholeJob(j); err != nil {
		t.Error(err)
	}
}

// The JSON of other jobs has no fields of stream jobs.
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

// Rules that no job file of allowed size can break, and jobs that did not come
// through DecodeJob.
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
		{"no blocks", func(j *berth.Job) { j.Stream = nil }, "job: the stream block of the job or of a group is missing"},
		{"a group without blocks", func(j *berth.Job) { j.TaskGroups[0].Stream = nil }, "job: the stream block of the job or of a group is missing"},
		{"another type", func(j *berth.Job) {
			j.Type = berth.TypeService
			j.Stream, j.TaskGroups[0].Stream, j.TaskGroups[1].Stream = nil, nil, nil
		}, "job.group[a].task[t].connectivity: is only for jobs of type stream, not service"},
		{"too many channels", func(j *berth.Job) { j.Stream.Regions = wide(1001); j.TaskGroups[1].Count = 1000 }, "job.parallel_region[r].width: must be 1 to 1000, got 1001"},
		{"a count of its own", func(j *berth.Job) { j.TaskGroups[1].Count = 3 },
			`job.group[b].count: must be 2, the width of parallel_region "r", got 3`},
		{"a count without a region", func(j *berth.Job) { j.TaskGroups[0].Count = 0 },
			`job.group[a].count: must be 1, for a group in no parallel_region, got 0`},
		{"too many elements", func(j *berth.Job) {
			j.Stream.Regions = nil
			for i := range 6 {
				g := *j.TaskGroups[0]
				g.Name, g.Count = fmt.Sprint("g", i), 1000
				j.TaskGroups = append(j.TaskGroups, &g)
				j.Stream.Regions = append(j.Stream.Regions, berth.RegionSpec{Name: g.Name, Groups: []string{g.Name}, Width: 1000})
			}
			j.TaskGroups[1].Count = 1
		}, "job.parallel_region: at most 5000 processing elements are allowed in all groups, got 6002"},
		{"too many connections", func(j *berth.Job) {
			j.Stream.Regions = []berth.RegionSpec{{Name: "r", Groups: []string{"a"}, Width: 300}, {Name: "q", Groups: []string{"b"}, Width: 300}}
			j.TaskGroups[0].Count, j.TaskGroups[1].Count = 300, 300
		}, "job.stream: streams can connect at most 50000 pairs of ports, got 90000"},
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
		}, "job: at most 10000 exports or imports are allowed, counted per processing element, got 11000"},
		{"too many tags", func(j *berth.Job) { j.Stream.HostPools[0].Tags = make([]string, 101) }, "job.host_pool[p].tags: at most 100 entries are allowed, got 101"},
		{"too many properties", func(j *berth.Job) {
			j.Stream.Exports = slices.Clone(j.Stream.Exports)
			j.Stream.Exports[0].Properties = map[string]any{}
			for i := range 101 {
				j.Stream.Exports[0].Properties[fmt.Sprint("p", i)] = int64(i)
			}
		}, "job.export[e].properties: at most 100 properties are allowed, got 101"},
		{"a pool's node that is not there", func(j *berth.Job) { n := 2; j.TaskGroups[0].Stream.Placement.PoolHost = &n },
			"job.group[a].placement.pool_host: must be 0 to 1, got 2"},
		{"a long expression", func(j *berth.Job) {
			j.Stream.Imports = slices.Clone(j.Stream.Imports)
			j.Stream.Imports[0].Filter = strings.Repeat("x", 4097)
		}, `job.import[m].filter: "` + strings.Repeat("x", 128) + `…": expression: must be at most 4096 bytes, got 4097`},
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

// A job from the log that lacks stream blocks is refused.
func TestWholeStream(t *testing.T) {
	for _, spoil := range []func(j *berth.Job){
		func(j *berth.Job) { j.Stream = nil }, func(j *berth.Job) { j.TaskGroups[1].Stream = nil }, func(j *berth.Job) { j.Type = berth.TypeBatch },
	} {
		j := own(streamJob(t))
		if spoil(j); validate.WholeJob(j) == nil {
			t.Errorf("%s with %v", j.Type, j.Stream)
		}
	}
}

func TestStreamWarnings(t *testing.T) {
	j := own(streamJob(t))
	if w := Warnings(j); len(w) > 0 {
		t.Errorf("warnings about a valid job: %q", w)
	}
	j.Stream.Streams, j.Stream.Exports, j.Stream.Imports = nil, nil, nil
	want := []string{
		`group "a": output "o" is not connected to a stream or export`,
		`group "b": input "i" is not connected to a stream or import`, `group "b": input "j" is not connected to a stream or import`,
	}
	if diff := cmp.Diff(want, Warnings(j)); diff != "" {
		t.Error(diff)
	}
}

// A placement is refused if and only if no assignment of the processing
// elements to nodes satisfies it; the test tries every assignment.
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
			t.Fatalf("possible: %v, problems: %v", possible, c.problems)
		}
		seen[possible]++
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("seen: %v", seen)
	}
}

// spreadable reports whether some assignment of the processing elements to
// nodes is allowed. It tries them all.
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
