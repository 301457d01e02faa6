package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"berth"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// C29: a job with spread blocks can be stopped, whatever became of its nodes and of
// its groups; it is also a row of docs/advisories.md.
func TestAdvisory_C29_SpreadJobsAreStopped(t *testing.T) {
	for _, block := range []string{`{"Attribute":"${meta.rack}","Weight":50}`, `{"Attribute":"${meta.rack}","Weight":100,"SpreadTarget":[{"Value":"r1","Percent":60},{"Value":"r9","Percent":40}]}`, `{"Attribute":"${meta.none}"}`, `{"Attribute":"${node.datacenter}","SpreadTarget":[{"Value":"*","Percent":100}]}`} {
		for _, purge := range []bool{false, true} {
			store, log := statetest.New(t)
			for n := 1; n <= 3; n++ {
				log.Must(t, statetest.AddNode(n, 4000, 4000, func(x *berth.Node) { x.Meta = map[string]string{"rack": fmt.Sprint("r", n)} }))
			}
			job := func(groups string) *berth.Job {
				return statetest.Job(t, `{"ID":"web","Spreads":[`+block+`],"TaskGroups":[`+groups+`]}`)
			}
			group := func(name string) string {
				return `{"Name":"` + name + `","Count":4,"Spreads":[` + block + `],"Tasks":[{"Name":"t","Driver":"mock_driver","Resources":{"CPU":10,"MemoryMB":10}}]}`
			}
			decide := func() {
				for e := range store.Snapshot().OpenEvals(berth.EvalPending) {
					log.Must(t, schedule.Decide(store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
				}
			}
			key := berth.JobKey{Namespace: "default", ID: "web"}
			log.Must(t, statetest.Register(job(group("a")+","+group("b")), 1))
			decide()
			placed := 0
			for range store.Snapshot().AllocsOf(key) {
				placed++
			}
			if placed != 8 {
				t.Fatalf("%s: %d are placed", block, placed)
			}
			log.Must(t, &state.SetNodeStatus{ID: statetest.Node(1, 1, 1).ID, Status: berth.NodeDown}, statetest.Register(job(group("b")), 2)) // a group and a rack are gone
			decide()
			log.Must(t, &state.StopJob{Key: key, Purge: purge, Eval: state.EvalSeed{ID: statetest.ID[berth.Eval](9), TriggeredBy: berth.TriggerJobDeregister}, Now: 1})
			decide()
			for a := range store.Snapshot().AllocsOf(key) {
				if a.Desired == berth.DesiredRun {
					t.Errorf("%s: %s is to run", block, a.ID)
				}
			}
		}
	}
}
