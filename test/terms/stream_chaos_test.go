//go:build faults

package terms

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/leader"
	"berth/internal/state"
)

// chaos is a cluster to which users, leaders and nodes do whatever comes to their
// minds.
type chaos struct {
	*streams
	dice *rand.Rand
	// alone says that one of the jobs wants a node for itself. Then nothing is
	// left to itself, for there would be an end to such nodes.
	alone bool
}

// pick returns one of the things.
func pick[T any](c *chaos, all ...T) T { return all[c.dice.IntN(len(all))] }

func (c *chaos) chance(percent int) bool { return c.dice.IntN(100) < percent }

// ask asks any server, which may refuse.
func (c *chaos) ask(method, path, body string) { c.do(c.any(), method, path, body) }

// job is a version of one of the jobs.
func (c *chaos) job() string {
	text := telemetry(`"Width":3`, fmt.Sprint(`"Width":`, 1+c.dice.IntN(4)),
		`"Timeout":300000000000`, `"Timeout":300000000000,"Recovery":"`+pick(c, "recreate", "recreate", "resume")+`","InterruptedUpdate":"`+pick(c, "recreate", "resume")+`"`)
	if c.alone && c.chance(30) {
		return `{"Job":{"ID":"alone","Type":"stream","Datacenters":["dc1"],"Stream":{"HostPools":[{"Name":"own","Tags":["ssd"],"Size":1,"Mode":"exclusive"}]},
			"TaskGroups":[{"Name":"g","Stream":{"Placement":{"Pool":"own"}},"Tasks":[
			{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":` + fmt.Sprint(10+c.dice.IntN(3)) + `}}]}]}}`
	}
	if c.chance(30) {
		return `{"Job":{"ID":"web","Type":"service","Datacenters":["dc1"],"TaskGroups":[{"Name":"g","Count":2,"Tasks":[
			{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`
	}
	return text
}

// led waits until a server leads, and returns what that knows. Servers that are
// to end do meanwhile, and others begin again.
func (c *chaos) led() *state.Snapshot {
	c.t.Helper()
	return c.wait("a server leads", func(*state.Snapshot) bool { return true })
}

// deed is one thing that somebody does, or that happens.
func (c *chaos) deed() (what string) {
	now := c.led()
	switch c.dice.IntN(16) {
	case 0, 1, 2:
		c.ask(http.MethodPut, "/v1/jobs", c.job())
		return "register"
	case 3:
		query := pick(c, "", "purge=true", "purge=true&propagation=foreground", "purge=true&propagation=foreground&force=true", "purge=true&propagation=orphan")
		if c.alone && strings.HasSuffix(query, "orphan") {
			break
		}
		c.ask(http.MethodDelete, "/v1/job/"+pick(c, "telemetry", "telemetry", "alone", "web")+"?"+query, "")
		return "delete " + query
	case 4:
		for a := range now.Allocs() {
			if a.Live() && c.chance(30) {
				c.ask(http.MethodPut, "/v1/allocation/"+a.ID.String()+"/stop", "{}")
				return "stop " + a.Name()
			}
		}
	case 5, 6:
		for r := range now.Resources() {
			if c.chance(10) {
				c.ask(http.MethodDelete, "/v1/resource/"+r.UID.Text(berth.KindLetter(r.Kind)), "")
				return "delete " + r.Kind + " " + r.Name
			}
		}
	case 7:
		c.ask(http.MethodPut, "/v1/job/telemetry/scale", fmt.Sprintf(`{"Count":%d,"Target":{"Group":"transform"}}`, 1+c.dice.IntN(4)))
		return "scale"
	case 8:
		lead := c.list[c.lead()]
		if c.chance(50) {
			_ = lead.Transfer(c.t.Context()) // it may be cut short by a failpoint
			return "hand over"
		}
		others := slices.DeleteFunc(slices.Clone(c.servers), func(a string) bool { return a == lead.addr })
		c.raft.Split([]string{lead.addr}, others)
		c.pass(time.Duration(1+c.dice.IntN(5)) * time.Second)
		c.raft.Heal()
		return "cut the leader off"
	case 9:
		if len(c.back) == 0 {
			c.leaderIsLost()
			return "the leader is lost"
		}
	case 10, 13, 14, 15:
		if len(c.back) > 0 {
			break
		}
		name := pick(c, leader.FailpointNames...)
		c.armAt(c.lead(), name, pick(c, failpoint.Before, failpoint.After), 1+c.dice.IntN(3), failpoint.Exit)
		c.ask(http.MethodPut, "/v1/jobs", c.job())
		return "arm " + name + " and register"
	case 11:
		x := pick(c, c.nodes...)
		x.away.Store(!x.away.Load())
		return x.Name + " is away or back"
	case 12:
		for _, x := range c.nodes {
			x.away.Store(false)
		}
		return "all nodes are back"
	}
	return "nothing"
}

// settled says what is not as it is to be at last, "" if nothing is.
func (c *chaos) settled(now *state.Snapshot) string {
	for d := range now.Deletions() {
		return "job " + d.Key.String() + " is being deleted"
	}
	for row := range now.StreamJobs() {
		switch j := now.Job(row.Key); {
		case j == nil || j.UID != row.UID:
			return "something is left of " + row.UID.Text('j')
		case row.Phase == berth.PhaseStopped:
			if now.Dependents(row.UID) > 0 {
				return "it is stopped, and owns something"
			}
		case row.Phase != berth.PhaseSubmitted || row.Version != j.Version || now.Incomplete(row) != "":
			return row.Phase + " at version " + fmt.Sprint(row.Version, " of ", j.Version)
		}
	}
	for a := range now.Allocs() {
		j := now.Job(a.Key())
		switch gone := j == nil || j.UID != a.Job.UID || j.Stop; {
		case a.Ended():
		case !a.Wanted() || gone && !a.Orphaned || a.Client != berth.ClientRunning:
			return a.Name() + " is " + a.Client.String()
		}
	}
	for range now.OpenEvals(berth.EvalBlocked) {
		return "an evaluation is blocked"
	}
	for range now.OpenEvals(berth.EvalPending) {
		return "an evaluation is pending"
	}
	return ""
}

// chaosSeeds is how many clusters are tried, and how many with BERTH_LONG=1.
const (
	chaosSeeds     = 4
	manyChaosSeeds = 150
)

// unreliably lets what is to stop go on for a while, and some of what runs fail.
func unreliably(d time.Duration) func(*agent) {
	stops := slowly(d)
	return func(a *agent) {
		stops(a)
		says := a.says
		a.says = func(name string, id berth.AllocID, status berth.ClientStatus) (berth.ClientStatus, bool) {
			if status == berth.ClientRunning && id[3]%16 == 0 {
				return berth.ClientFailed, true
			}
			return says(name, id, status)
		}
	}
}

// Whatever happens to stream jobs, to their leaders and to their nodes: when
// that is over, all that is wanted is there, and nothing else is. There was
// room for it all the time, so no submission waited for its time to be up, nor
// was given up.
func TestStreamsComeToRest(t *testing.T) {
	many := uint64(chaosSeeds)
	if os.Getenv("BERTH_LONG") != "" {
		many = manyChaosSeeds
	}
	for seed := range many {
		bubbled(t, func(t *testing.T) {
			c := &chaos{newStreams(t, seed, 6, unreliably(3*time.Second)), rand.New(rand.NewPCG(seed, 7)), seed%2 == 1}
			c.ask(http.MethodPut, "/v1/jobs", c.job())
			var did []string
			for range 40 {
				did = append(did, c.deed())
				most := pick(c, 300, 3000, 15000)
				c.pass(time.Duration(c.dice.IntN(most)) * time.Millisecond)
			}
			for _, x := range c.nodes {
				x.away.Store(false)
			}
			for i := range c.sets {
				for _, p := range c.sets[i].Points() {
					c.armAt(i, p.Name, p.When, 1, failpoint.Off)
				}
			}
			var why string
			for range 300 {
				c.pass(time.Second)
				if i := c.lead(); i >= 0 {
					if why = c.settled(c.list[i].Store().Snapshot()); why == "" {
						break
					}
				}
			}
			now := c.led()
			if why != "" {
				t.Errorf("seed %d: %s\n%s\n%q", seed, why, c.tell(), did)
			}
			t.Logf("seed %d: index %d, term %d, %d servers died, %d allocations; %q", seed, now.Index, now.Term, c.deaths, now.Count(state.Allocs), did)
			for row := range now.StreamJobs() {
				if row.Phase == berth.PhaseFailed || row.Retries > 0 {
					t.Errorf("seed %d: %+v\n%q", seed, row, did)
				}
			}
		})
	}
}
