package schedule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// update is a cluster on which the first version of a job runs, as many
// instances as have room, and the decision about the second.
func update(t *testing.T, first, second string, nodes ...*state.RegisterNode) (*state.Store, schedule.Decision) {
	t.Helper()
	store, log := statetest.New(t)
	for _, n := range nodes {
		log.Must(t, n)
	}
	decide := func(text string, eval int) schedule.Decision {
		log.Must(t, statetest.Register(statetest.Job(t, text), eval))
		s := store.Snapshot()
		return schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](eval)), 0, time.Unix(9, 0))
	}
	log.Must(t, decide(first, 1).Plan)
	for a := range store.Snapshot().Allocs() {
		log.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientRunning}}, Now: 2})
	}
	return store, decide(second, 2)
}

func sized(cpu, count int) string {
	return fmt.Sprintf(`{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Resources":{"CPU":%d,"MemoryMB":100}}]}`, count, cpu)
}

// A version that has no place anywhere, whatever ends, leaves the old one
// alone: it runs on, and the evaluation waits for room.
func TestAVersionWithoutAPlaceStopsNothing(t *testing.T) {
	_, d := update(t, sized(800, 2), sized(5000, 2), statetest.AddNode(1, 2000, 4000))
	if len(d.Plan.Stop) != 0 || len(d.Plan.Place) != 0 {
		t.Errorf("stops %v, places %v", d.Plan.Stop, d.Plan.Place)
	}
	if d.Plan.End.Blocked == nil || d.Plan.End.Queued["g"] != 2 {
		t.Errorf("%+v", d.Plan.End)
	}
}

// It makes no difference whether the tasks changed or only where they may run: the
// old version runs on, and the evaluation says what no node meets.
func TestAVersionThatNoNodeMeetsStopsNothing(t *testing.T) {
	const text = `{"ID":"web",%s"TaskGroups":[{"Name":"g","Count":2,%s"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":%d,"MemoryMB":100}}]}]}`
	const ssd = `"Constraints":[{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"}],`
	first := fmt.Sprintf(text, "", "", 800)
	for name, second := range map[string]string{
		"constraint":                   fmt.Sprintf(text, "", ssd, 800),
		"constraint of the job":        fmt.Sprintf(text, ssd, "", 800),
		"constraint, and its tasks":    fmt.Sprintf(text, "", ssd, 900),
		"datacenter":                   fmt.Sprintf(text, `"Datacenters":["moon"],`, "", 800),
		"constraint of a batch job":    fmt.Sprintf(text, `"Type":"batch",`, ssd, 800),
		"constraint, with deployments": fmt.Sprintf(text, `"Update":{"MaxParallel":2},`, ssd, 800),
	} {
		t.Run(name, func(t *testing.T) {
			_, d := update(t, first, second, statetest.AddNode(1, 2000, 4000))
			if len(d.Plan.Stop) != 0 || len(d.Plan.Place) != 0 {
				t.Errorf("stops %v, places %v", d.Plan.Stop, d.Plan.Place)
			}
			if end := d.Plan.End; end.Blocked == nil || end.Queued["g"] != 2 || end.Failed["g"].NodesFiltered != 1 {
				t.Errorf("ends %+v, because %+v", end, end.Failed["g"])
			}
		})
	}
}

// A change that replaces no tasks is made in place where a driver is unhealthy: the
// tasks may not have noticed, and the driver may recover. Only new instances need
// a healthy one.
func TestAnUnhealthyDriverReplacesNothing(t *testing.T) {
	const text = `{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":100,"MemoryMB":100}}]}]}`
	r := newRollout(t, statetest.AddNode(1, 2000, 4000))
	r.register(fmt.Sprintf(text, 2))
	r.report()
	ill := statetest.AddNode(1, 2000, 4000)
	ill.Node.Drivers = map[string]*berth.DriverInfo{"mock_driver": {Detected: true}}
	r.log.Must(t, ill)
	if d := r.register(fmt.Sprintf(text, 3)); len(d.Plan.Stop) != 0 || len(d.Plan.Update) != 2 || len(d.Plan.Place) != 0 || d.Plan.End.Blocked == nil || d.Plan.End.Queued["g"] != 1 {
		t.Errorf("stops %v, updates %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Update, d.Plan.Place, d.Plan.End)
	}
	well := statetest.AddNode(2, 2000, 4000)
	r.log.Must(t, well)
	d := r.register(fmt.Sprintf(text, 4))
	if len(d.Plan.Stop) != 0 || len(d.Plan.Update) != 2 || len(d.Plan.Place) != 2 {
		t.Errorf("with a second node: stops %v, updates %v, places %v", d.Plan.Stop, d.Plan.Update, d.Plan.Place)
	}
	for _, p := range d.Plan.Place {
		if p.NodeID != well.Node.ID {
			t.Errorf("g[%d] is placed where the driver is unhealthy", p.Index)
		}
	}
}

// A node that changed does not lose what runs there because the count of the group
// changes. When the conditions change, too, it does.
func TestOnlyNewConditionsMoveInstances(t *testing.T) {
	const text = `{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,"Constraints":[{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"}%s],"Resources":{"CPU":400,"MemoryMB":100}}]}`
	node := func(n int, disk string) *state.RegisterNode {
		r := statetest.AddNode(n, 2000, 4000)
		r.Node.Meta = map[string]string{"disk": disk}
		return r
	}
	r := newRollout(t, node(1, "ssd"))
	r.register(fmt.Sprintf(text, 2, ""))
	r.report()
	r.log.Must(t, node(1, "hdd"))
	r.log.Must(t, node(2, "ssd"))
	if d := r.register(fmt.Sprintf(text, 3, "")); len(d.Plan.Stop) != 0 || len(d.Plan.Update) != 2 || len(d.Plan.Place) != 1 {
		t.Errorf("another count: stops %v, updates %v, places %v", d.Plan.Stop, d.Plan.Update, d.Plan.Place)
	}
	const second = `,{"LTarget":"${node.datacenter}","Operand":"=","RTarget":"dc1"}`
	if d := r.register(fmt.Sprintf(text, 3, second)); len(d.Plan.Stop) != 2 || len(d.Plan.Place) != 2 {
		t.Errorf("one more constraint: stops %v, updates %v, places %v", d.Plan.Stop, d.Plan.Update, d.Plan.Place)
	}
}

// Where some nodes meet a new constraint and have room, as many move as have a
// place there. The others run on where they are.
func TestWhatHasNoOtherPlaceStaysOnAnUnfitNode(t *testing.T) {
	const text = `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,%s"Resources":{"CPU":400,"MemoryMB":100}}]}`
	ssd := statetest.AddNode(2, 800, 4000)
	ssd.Node.Meta = map[string]string{"disk": "ssd"}
	r := newRollout(t, statetest.AddNode(1, 1200, 4000))
	r.register(fmt.Sprintf(text, ""))
	r.report()
	r.log.Must(t, ssd)
	d := r.register(fmt.Sprintf(text, `"Constraints":[{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"}],`))
	if len(d.Plan.Stop) != 2 || len(d.Plan.Place) != 2 || d.Plan.End.Queued["g"] != 1 || d.Plan.End.Blocked == nil {
		t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
}

// Where the end of the old version makes the room that the new one needs, the
// old one is stopped, and the new one waits for that.
func TestAVersionThatWaitsForTheOldOneToEnd(t *testing.T) {
	_, d := update(t, sized(1500, 1), sized(1800, 1), statetest.AddNode(1, 2000, 4000))
	if len(d.Plan.Stop) != 1 || len(d.Plan.Place) != 0 || d.Plan.End.Blocked == nil {
		t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
}

// Of several instances as many are stopped as the new version has room for
// when they have ended and the others run on.
func TestAsManyAreStoppedAsHaveAPlace(t *testing.T) {
	_, d := update(t, sized(1000, 4), sized(1500, 4), statetest.AddNode(1, 2600, 4000), statetest.AddNode(2, 2000, 4000))
	if len(d.Plan.Stop) != 1 || len(d.Plan.Place) != 0 || d.Plan.End.Queued["g"] != 4 {
		t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
}

// What is spared keeps its capacity. Nothing is stopped for a place that is there
// only if all others stop as well.
func TestNothingIsStoppedForTheRoomOfWhatIsSpared(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		nodes         []*state.RegisterNode
	}{
		{"one node", sized(400, 2), sized(700, 2), []*state.RegisterNode{statetest.AddNode(1, 1000, 4000)}},
		{"two nodes", sized(1000, 4), sized(1500, 4), []*state.RegisterNode{statetest.AddNode(1, 2000, 4000), statetest.AddNode(2, 2000, 4000)}},
		{"many small ones", sized(10, 100), sized(11, 100), []*state.RegisterNode{statetest.AddNode(1, 1000, 64_000)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d := update(t, c.first, c.second, c.nodes...)
			if len(d.Plan.Stop) != 0 || len(d.Plan.Place) != 0 || d.Plan.End.Blocked == nil {
				t.Errorf("stops %v, places %v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
			}
		})
	}
}

// evicting is a cluster in which service jobs may evict others, and what decides
// about a job there.
func evicting(t *testing.T, nodes ...state.Command) (log *statetest.Log, decide func(text string, eval int) schedule.Decision) {
	t.Helper()
	_, log = statetest.New(t, nodes...)
	log.Must(t, &state.SetSchedulerConfig{Config: berth.SchedulerConfig{PreemptionConfig: berth.PreemptionConfig{ServiceSchedulerEnabled: true}}})
	return log, func(text string, eval int) schedule.Decision {
		t.Helper()
		log.Must(t, statetest.Register(statetest.Job(t, text), eval))
		s := log.Tip()
		return schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](eval)), 0, time.Unix(9, 0))
	}
}

// What is spared keeps its room. Another group that would have waited for that
// room evicts others instead: nothing it could wait for comes.
func TestNobodyWaitsForWhatIsSpared(t *testing.T) {
	log, decide := evicting(t, statetest.AddNode(1, 1000, 4000), statetest.AddNode(2, 1000, 4000))
	log.Must(t, decide(sized(900, 1), 1).Plan)
	log.Must(t, decide(`{"ID":"low","Priority":10,"TaskGroups":[{"Name":"l","Resources":{"CPU":900,"MemoryMB":100}}]}`, 2).Plan)
	var low berth.AllocID
	for a := range log.Tip().Allocs() {
		if a.Job.ID == "low" {
			low = a.ID
		}
	}
	d := decide(`{"ID":"web","TaskGroups":[{"Name":"g","Resources":{"CPU":5000,"MemoryMB":100}},{"Name":"h","Resources":{"CPU":800,"MemoryMB":100}}]}`, 3)
	if len(d.Plan.Stop) != 0 || d.Plan.End.Queued["g"] != 1 || d.Plan.End.Blocked == nil {
		t.Errorf("stops %v, ends %+v", d.Plan.Stop, d.Plan.End)
	}
	if len(d.Plan.Place) != 1 || !slices.Equal(d.Plan.Place[0].Evict, []berth.AllocID{low}) {
		t.Errorf("places %+v", d.Plan.Place)
	}
}

// Two instances that would both wait for the room that the old ones give up: only
// one has a place there, so one is spared at first, and then neither has. Both
// evict others, and what they replace is stopped.
func TestWhatIsSparedAtFirstMayEvictAllTheSame(t *testing.T) {
	const two = `{"ID":"web","TaskGroups":[{"Name":"g","Resources":{"CPU":%[1]d,"MemoryMB":100}},{"Name":"h","Resources":{"CPU":%[1]d,"MemoryMB":100}}]}`
	log, decide := evicting(t, statetest.AddNode(1, 1000, 4000))
	log.Must(t, decide(fmt.Sprintf(two, 500), 1).Plan)
	log.Must(t, statetest.AddNode(2, 2000, 4000))
	log.Must(t, decide(`{"ID":"low","Priority":10,"TaskGroups":[{"Name":"l","Count":2,"Resources":{"CPU":900,"MemoryMB":100}}]}`, 2).Plan)
	d := decide(fmt.Sprintf(two, 900), 3)
	if len(d.Plan.Stop) != 2 || len(d.Plan.Place) != 2 || d.Plan.End.Blocked != nil {
		t.Fatalf("stops %v, places %+v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
	}
	for _, p := range d.Plan.Place {
		if len(p.Evict) != 1 || p.Previous.IsZero() {
			t.Errorf("places %+v", p)
		}
	}
}

// Instances exclude each other from nodes, and one node has room for the new
// version: the instance that runs there gets it, and no node has two. The others
// run on.
func TestWhatIsSparedKeepsItsHost(t *testing.T) {
	const pair = `{"ID":"web","TaskGroups":[{"Name":"g","Count":3,"Constraints":[{"Operand":"distinct_hosts"}],"Resources":{"CPU":%d,"MemoryMB":100}}]}`
	const two = `{"ID":"web","Constraints":[{"Operand":"distinct_hosts"}],"TaskGroups":[{"Name":"g","Resources":{"CPU":%[1]d,"MemoryMB":100}},{"Name":"h","Resources":{"CPU":%[1]d,"MemoryMB":100}}]}`
	const property = `{"ID":"web","Constraints":[{"Operand":"distinct_property","LTarget":"${node.unique.name}"}],"TaskGroups":[{"Name":"g","Count":3,"Resources":{"CPU":%d,"MemoryMB":100}}]}`
	for name, text := range map[string]string{"hosts of a group": pair, "hosts of a job": two, "a property": property} {
		for eval := range 10 {
			store, log := statetest.New(t)
			for i, cpu := range []int64{1000, 1000, 2000} {
				log.Must(t, statetest.AddNode(i+1, cpu, 4000))
			}
			decide := func(text string, eval int) schedule.Decision {
				log.Must(t, statetest.Register(statetest.Job(t, text), eval))
				s := store.Snapshot()
				return schedule.Decide(s, s.Eval(statetest.ID[berth.Eval](eval)), 0, time.Unix(9, 0))
			}
			log.Must(t, decide(fmt.Sprintf(text, 100), 10+eval).Plan)
			hosts := map[berth.NodeID]berth.AllocID{}
			for a := range store.Snapshot().Allocs() {
				hosts[a.NodeID] = a.ID
				log.Must(t, &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: berth.ClientRunning}}, Now: 2})
			}
			d := decide(fmt.Sprintf(text, 1500), 50+eval)
			if len(d.Plan.Stop) != len(d.Plan.Place) || d.Plan.End.Blocked == nil || text != two && len(d.Plan.Place) != 1 {
				t.Errorf("%s: stops %v, places %+v, ends %+v", name, d.Plan.Stop, d.Plan.Place, d.Plan.End)
			}
			for _, p := range d.Plan.Place {
				if there := hosts[p.NodeID]; !there.IsZero() && (p.Previous != there || d.Plan.Stop[0].ID != there) {
					t.Errorf("%s: %+v stands beside %s; stops %v", name, p, there, d.Plan.Stop)
				}
			}
		}
	}
}

// What runs on is never in the way of what the plan places, or of what gets a
// place once others have ended: here a new version asks for hosts, or racks, of
// their own, and the old one has several instances on one.
func TestWhatIsSparedIsNotInTheWay(t *testing.T) {
	const text = `{"ID":"web","TaskGroups":[{"Name":"g","Count":%d,%s"Resources":{"CPU":%d,"MemoryMB":100}}]}`
	const hosts = `"Constraints":[{"Operand":"distinct_hosts"}],`
	const racks = `"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}"}],`
	const pairs = `"Constraints":[{"Operand":"distinct_property","LTarget":"${meta.rack}","RTarget":"2"}],`
	sizes := func(cpu ...int64) (out []*state.RegisterNode) { // nodes of one rack
		for i, c := range cpu {
			n := statetest.AddNode(i+1, c, 4000)
			n.Node.Meta = map[string]string{"rack": "r1"}
			out = append(out, n)
		}
		return out
	}
	for _, c := range []struct {
		name         string
		apart        string
		count        int
		was, is      int // MHz of an instance
		nodes        []*state.RegisterNode
		stop, placed int
	}{
		{"one has a place now, on the host of both", hosts, 2, 100, 300, sizes(1000), 2, 1},
		{"one has a place when the other has ended", hosts, 2, 400, 700, sizes(1000), 2, 0},
		{"one has a place when another of its rack has ended", racks, 2, 400, 450, sizes(500, 500), 2, 0},
		{"two of a rack have a place when another has ended", pairs, 3, 400, 450, sizes(500, 500, 500), 3, 0},
		{"one has a place, and one more may stay in its rack", pairs, 3, 400, 450, sizes(500, 420, 420), 2, 0},
		{"a host of its own without room is no reason to stop", hosts, 2, 400, 900, sizes(500, 1000), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d := update(t, fmt.Sprintf(text, c.count, "", c.was), fmt.Sprintf(text, c.count, c.apart, c.is), c.nodes...)
			if len(d.Plan.Stop) != c.stop || len(d.Plan.Place) != c.placed || d.Plan.End.Blocked == nil {
				t.Errorf("stops %v, places %+v, ends %+v", d.Plan.Stop, d.Plan.Place, d.Plan.End)
			}
		})
	}
}
