package quota

import (
	"reflect"
	"strings"
	"testing"

	"berth"

	"pgregory.net/rapid"
)

func n(x int) *int { return &x }

// limits is a quota with a limit of each kind, one of them for a pool.
func limits() *berth.Quota {
	return &berth.Quota{Name: "q", Region: "global", Limits: []*berth.QuotaLimit{
		{Region: "other", RegionLimit: &berth.QuotaResources{CPU: n(1)}},
		{Region: "global", RegionLimit: &berth.QuotaResources{
			CPU: n(1000), MemoryMB: n(500), MemoryMaxMB: n(800), Cores: n(-1), Allocations: n(3),
			Devices: []*berth.RequestedDevice{{Name: "nvidia/gpu", Count: 2}, {Name: "fpga"}}, Storage: &berth.QuotaStorage{VariablesMB: 1},
			NodePools: []*berth.QuotaResources{{NodePool: "gpu", CPU: n(300)}},
		}},
	}}
}

func group(r ...berth.Resources) *berth.TaskGroup {
	g := &berth.TaskGroup{Name: "g"}
	for i := range r {
		g.Tasks = append(g.Tasks, &berth.Task{Resources: &r[i]})
	}
	return g
}

// What leaves no room is said in numbers, limit by limit; what another region
// limits does not count.
func TestLacks(t *testing.T) {
	for name, x := range map[string]struct {
		pool string
		r    []berth.Resources
		want string
	}{
		"fits":                    {"default", []berth.Resources{{CPU: 600, MemoryMB: 500}}, ""},
		"cpu of all tasks":        {"default", []berth.Resources{{CPU: 600}, {CPU: 401}}, "cpu: 1001 MHz asked, 1000 of 1000 MHz left"},
		"cores":                   {"default", []berth.Resources{{Cores: 1}}, "cores: not allowed"},
		"two at once":             {"default", []berth.Resources{{CPU: 1001, MemoryMB: 501}}, "cpu: 1001 MHz asked, 1000 of 1000 MHz left; memory: 501 MiB asked, 500 of 500 MiB left"},
		"memory_max":              {"default", []berth.Resources{{MemoryMB: 10, MemoryMaxMB: 900}}, "memory_max: 900 MiB asked, 800 of 800 MiB left"},
		"memory_max of any size":  {"default", []berth.Resources{{MemoryMB: 10, MemoryMaxMB: -1}, {MemoryMaxMB: -1}}, "memory_max: any amount asked, limited to 800 MiB"},
		"a pool":                  {"gpu", []berth.Resources{{CPU: 301}}, `cpu in node pool "gpu": 301 MHz asked, 300 of 300 MHz left`},
		"all pools":               {"all", []berth.Resources{{CPU: 301}}, `cpu in node pool "gpu": 301 MHz asked, 300 of 300 MHz left`},
		"another pool":            {"default", []berth.Resources{{CPU: 301}}, ""},
		"a device by its vendor":  {"default", []berth.Resources{{Devices: []berth.RequestedDevice{{Name: "nvidia/gpu", Count: 3}}}}, `device "nvidia/gpu": 3 asked, 2 of 2 left`},
		"a device by its type":    {"default", []berth.Resources{{Devices: []berth.RequestedDevice{{Name: "gpu", Count: 3}}}}, `device "nvidia/gpu": 3 asked, 2 of 2 left`},
		"one device of it":        {"default", []berth.Resources{{Devices: []berth.RequestedDevice{{Name: "nvidia/gpu/a100", Count: 3}}}}, `device "nvidia/gpu": 3 asked, 2 of 2 left`},
		"a device of another":     {"default", []berth.Resources{{Devices: []berth.RequestedDevice{{Name: "amd/gpu", Count: 3}}}}, ""},
		"a device with a limit 0": {"default", []berth.Resources{{Devices: []berth.RequestedDevice{{Name: "xilinx/fpga", Count: 1}}}}, `device "fpga": not allowed`},
	} {
		u := Empty(limits(), 1)
		ask := u.Of(&berth.Job{NodePool: x.pool}, group(x.r...))
		if got := strings.Join(u.Lacks(ask), "; "); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
		if (x.want == "") != (u.Room(ask, 1) == 1) {
			t.Errorf("%s: there is room %d times", name, u.Room(ask, 1))
		}
	}
}

// Room is how often an ask can be added before something is lacking, and what is
// added and taken away leaves no trace.
func TestRoomIsWhatLacksNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := Empty(limits(), 1)
		draw := func() []int64 {
			r := berth.Resources{
				CPU: rapid.IntRange(0, 700).Draw(t, "cpu"), MemoryMB: rapid.IntRange(0, 300).Draw(t, "memory"),
				MemoryMaxMB: rapid.SampledFrom([]int{0, 0, 100, -1}).Draw(t, "max"),
			}
			if rapid.Bool().Draw(t, "device") {
				r.Devices = []berth.RequestedDevice{{Name: "gpu", Count: 1}}
			}
			return u.Of(&berth.Job{NodePool: rapid.SampledFrom([]string{"default", "gpu", "all"}).Draw(t, "pool")}, group(r))
		}
		u.Add(draw(), 1)
		before, ask := u.Clone(), draw()
		room := u.Room(ask, 10)
		for i := range 10 {
			if (len(u.Lacks(ask)) == 0) != (i < room) {
				t.Fatalf("there is room %d times, and after %d: %v", room, i, u.Lacks(ask))
			}
			u.Add(ask, 1)
		}
		u.Add(ask, -10)
		if !reflect.DeepEqual(before, u) {
			t.Fatalf("%v became %v", before.Used, u.Used)
		}
	})
}
