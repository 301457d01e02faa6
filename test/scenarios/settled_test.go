//go:build faults

package scenarios

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"berth/internal/eventually"
	"berth/test/bed"
)

// standing is how far the submission of a stream job is.
type standing struct {
	UID, Phase, State   string
	StreamID            uint64
	Generation, Version uint64
	Newest              uint64
	Expected, Observed  map[string]int
	Missing, Stale      []string
	Ready               bool
	LastError           string
	Deletion            *struct{ Policy, Intent string }
	Recovery            struct {
		Count        int
		Predecessors []string
	}
}

// pe is a processing element.
type pe struct {
	Name, UID, Connectivity, Group string
	ID                             int
	Generation, LaunchCount        uint64
	CreateIndex                    uint64
	Orphaned                       bool
	Allocation                     *peAlloc
	Zombies                        []peAlloc
}

// peAlloc is an allocation as its processing element shows it.
type peAlloc struct{ ID, NodeID, NodeName, DesiredStatus, ClientStatus string }

// runs reports whether its present launch does.
func (p *pe) runs() bool { return p.Allocation != nil && p.Allocation.ClientStatus == "running" }

// owner is what an object names as its owner.
type owner struct {
	UID   string
	Block bool // it does not go, deleted in the foreground, before the object does
}

// resource is any object with owners.
type resource struct {
	Kind, Name, ID, UID string
	OwnerRefs           []owner
	Generation          uint64
	Status              string
	LaunchCount         uint64
	Orphaned            bool
}

// alloc is an allocation in a list.
type alloc struct {
	ID, Name, NodeID, NodeName, DesiredStatus, ClientStatus string
	CreateIndex, ModifyIndex                                uint64
}

func (c *cluster) standing(job string) (out standing) {
	c.Helper()
	c.get("/v1/stream/job/"+job, &out)
	return out
}

// pes returns the processing elements of a job by name; of two incarnations those
// of the newer one.
func (c *cluster) pes(job string) map[string]*pe {
	c.Helper()
	var all []*pe
	c.get("/v1/stream/pes?job="+job, &all)
	out := map[string]*pe{}
	for _, p := range all {
		if p.Orphaned {
			continue
		}
		if old := out[p.Name]; old != nil {
			if !c.dangling {
				c.Errorf("there are two %s: %+v and %+v", p.Name, p, old)
			}
			if old.CreateIndex > p.CreateIndex {
				continue
			}
		}
		out[p.Name] = p
	}
	return out
}

// resources returns what is there of a query.
func (c *cluster) resources(query string) (out []resource) {
	c.Helper()
	c.get("/v1/resources?"+query, &out)
	return out
}

// allocs returns all allocations of a job's name.
func (c *cluster) allocs(job string) (out []alloc) {
	c.Helper()
	c.get("/v1/job/"+job+"/allocations?all=true", &out)
	return out
}

// settled waits until T is submitted and runs, and checks that it is whole: so
// many processing elements, each launched so often (0: whatever) and running
// once, each object owned as it should be, and nothing of another incarnation.
func (c *cluster) settled(pes int, launches uint64) standing {
	c.Helper()
	return c.settledJob("telemetry", pes, launches)
}

func (c *cluster) settledJob(job string, pes int, launches uint64) (now standing) {
	c.Helper()
	c.until(job+" is submitted and runs", func() string {
		code, text := c.do(http.MethodGet, "/v1/stream/job/"+job, "")
		now = standing{}
		if err := json.Unmarshal([]byte(text), &now); code != http.StatusOK || err != nil {
			return fmt.Sprint(code, text)
		}
		if now.Phase != "Submitted" || now.Deletion != nil || now.Version != now.Newest || now.State != "submitted" {
			return bed.Got(text)
		}
		for _, p := range c.pes(job) {
			if !p.runs() {
				return fmt.Sprintf("%s has %+v", p.Name, p.Allocation)
			}
		}
		return ""
	})
	if !maps.Equal(now.Expected, now.Observed) || len(now.Missing)+len(now.Stale) > 0 {
		c.Errorf("%+v", now)
	}
	uids := map[string]bool{}
	all := c.pes(job)
	for _, p := range all {
		if uids[p.UID] = true; launches > 0 && p.LaunchCount != launches {
			c.Errorf("%s was launched %d times, want %d", p.Name, p.LaunchCount, launches)
		}
	}
	live := 0
	for _, r := range c.resources("job=" + job) {
		if r.Orphaned || r.Kind == "Job" {
			continue
		}
		owner := ""
		if len(r.OwnerRefs) == 1 {
			owner = r.OwnerRefs[0].UID
		}
		if c.dangling && owner != now.UID && !uids[owner] {
			continue
		}
		if r.Kind == "Allocation" {
			if live++; !uids[owner] {
				c.Errorf("%s %s is owned by %v", r.Kind, r.Name, r.OwnerRefs)
			}
		} else if owner != now.UID || r.Generation != now.Generation {
			c.Errorf("%s %s is owned by %v, generation %d; the job is %s, generation %d", r.Kind, r.Name, r.OwnerRefs, r.Generation, now.UID, now.Generation)
		}
	}
	if len(all) != pes || live != pes {
		c.Errorf("%d processing elements, %d allocations; want %d", len(all), live, pes)
	}
	return now
}

// recovered checks that T began again so often, the first time as first.
func (c *cluster) recovered(now standing, first string, count int) {
	c.Helper()
	r := now.Recovery
	if r.Count != count || len(r.Predecessors) != count || count > 0 && (r.Predecessors[0] != first || now.UID == first) || count == 0 && now.UID != first {
		c.Errorf("it is %s, recovered %+v; the first was %s, want %d recoveries", now.UID, r, first, count)
	}
}

// marked waits until T is marked to begin again.
func (c *cluster) marked(uid string) {
	c.Helper()
	c.until("it is marked", func() string {
		var j struct {
			UID      string
			Deletion *struct{ Policy, Intent string }
		}
		c.get("/v1/job/telemetry", &j)
		if j.UID == uid && j.Deletion != nil && j.Deletion.Intent == "recover" && j.Deletion.Policy == "foreground" {
			return ""
		}
		if j.UID != uid {
			c.Fatalf("it is %s, and was not seen to be marked", j.UID)
		}
		return fmt.Sprintf("%+v", j)
	})
}

// gone waits until T is not there, and owns nothing.
func (c *cluster) gone(uid string) {
	c.Helper()
	c.until("it is gone", func() string {
		if code, text := c.do(http.MethodGet, "/v1/job/telemetry", ""); code != http.StatusNotFound {
			return bed.Got(text)
		}
		if left := c.resources("owner=" + uid + "&recursive=true"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
}

// placed waits until so many allocations of T are live.
func (c *cluster) placed(n int) {
	c.Helper()
	c.until(fmt.Sprintf("%d are placed", n), func() string {
		live := 0
		for _, a := range c.allocs("telemetry") {
			if !terminal(a.ClientStatus) {
				live++
			}
		}
		if live == n {
			return ""
		}
		return fmt.Sprintf("%d are", live)
	})
}

// stop stops an allocation as a user does.
func (c *cluster) stop(id string) {
	c.Helper()
	c.must(http.MethodPut, "/v1/allocation/"+id+"/stop", "")
}

// report has a processing element say which of its connections it has, as its
// task would. It returns the code of the answer.
func (c *cluster) report(id, state string) (code int) {
	c.Helper()
	code, text, err := tell(c.Context(), c.reportsAt(id), state)
	if err != nil || code/100 != 2 {
		c.Logf("a report is answered %d %s, %v", code, text, err)
	}
	return code
}

// reportsAt returns where the task of an allocation reports, as that has said.
func (c *cluster) reportsAt(id string) (at string) {
	c.Helper()
	c.until("the task says where it reports", func() string {
		_, text := c.do(http.MethodGet, "/v1/client/fs/logs/"+id+"?task=t&type=stdout&plain=true", "")
		for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "api="); ok {
				at = v
				return ""
			}
		}
		return bed.Got(text)
	})
	return at
}

// tell reports at an agent.
func tell(ctx context.Context, at, state string) (code int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, eventually.Limit)
	defer cancel()
	client := bed.HTTP
	if socket, ok := strings.CutPrefix(at, "unix://"); ok {
		at = "http://agent"
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, at+"/v1/stream/pe/self/connectivity", strings.NewReader(fmt.Sprintf(`{"State":%q}`, state)))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// file is the connectivity file of a processing element.
type file struct {
	Version uint64
	Outputs []struct {
		Name string
		To   []struct {
			Kind, Job, PE, Input, Addr string
			LaunchCount                uint64
		}
	}
}

func (c *cluster) file(name string) (out file) {
	c.Helper()
	c.get("/v1/stream/pe/"+url.PathEscape(name)+"/connectivity-file", &out)
	return out
}

// addrs are the addresses that a file leads to, of one job; "" is of all.
func (f *file) addrs(job string) (out []string) {
	for _, o := range f.Outputs {
		for _, to := range o.To {
			if job == "" || to.Job == job {
				out = append(out, to.Addr)
			}
		}
	}
	slices.Sort(out)
	return out
}
