//go:build faults

package scenarios

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"berth/test/bed"
)

// Pools, and who goes where.
func TestS24(t *testing.T) {
	long(t)
	c := newCluster(t, options{meta: map[string]string{"n1": "ssd,rack-a", "n2": "rack-a,ssd,big", "n3": "ssd"}})
	for why, change := range map[string][]string{
		"9":           {`"Size":2`, `"Size":9`},
		`"elsewhere"`: {`"Tags":["ssd","rack-a"],"Size":2`, `"Hosts":["elsewhere"]`},
	} {
		uid := c.register(change...)
		if now := c.failed(); !strings.Contains(now.LastError, why) {
			t.Errorf("%s: %q", why, now.LastError)
		}
		c.remove("propagation=foreground")
		c.gone(uid)
	}

	// Two jobs want the same nodes for themselves. They start slowly enough to be
	// interrupted.
	all := []string{`"Size":2`, `"Mode":"exclusive"`, `{"Colocate":["hot"]}`, `{"Pool":"edge","Colocate":["hot"]}`, `{"Isolated":true}`, `{"Pool":"edge","Isolated":true}`}
	first := c.halfway(append(slowly(4), all...)...)
	c.must(http.MethodPut, "/v1/jobs", telemetry(append(append(slowly(4), all...), `"ID":"telemetry"`, `"ID":"other"`)...))
	submitted := ""
	c.until("one of them is submitted", func() string {
		for _, job := range []string{"telemetry", "other"} {
			if c.standing(job).Phase == "Submitted" {
				submitted = job
				return ""
			}
		}
		return fmt.Sprintf("%+v %+v", c.standing("telemetry"), c.standing("other"))
	})
	waits := map[string]string{"telemetry": "other", "other": "telemetry"}[submitted]
	c.settledJob(submitted, 5, 1)
	at := map[string]string{}
	for name, p := range c.pes(submitted) {
		at[strings.TrimPrefix(name, submitted+".")] = p.Allocation.NodeName
		if p.Allocation.NodeName == "n3" {
			t.Errorf("%s is on a node without one of the tags", name)
		}
	}
	if at["transform[0]"] != at["transform[1]"] || at["transform[1]"] != at["transform[2]"] || at["sink[0]"] == at["source[0]"] || at["sink[0]"] == at["transform[0]"] {
		t.Errorf("%v", at)
	}
	c.must(http.MethodDelete, "/v1/job/"+submitted+"?purge=true&propagation=foreground", "")
	c.settledJob(waits, 5, 0)
	if e := c.recorder.Meeting("telemetry", "other"); e != nil {
		t.Errorf("the other job was there: %v", e)
	}
	if c.recorder.Index("Deleted", first) == 0 {
		t.Errorf("%s was not recovered", first)
	}
	if uid := c.standing(waits).UID; waits == "telemetry" && uid == first {
		t.Errorf("it is still %s", uid)
	}
	c.must(http.MethodDelete, "/v1/job/"+waits+"?purge=true&propagation=foreground", "")
	c.until("both are gone", func() string {
		if code, text := c.do(http.MethodGet, "/v1/job/"+waits, ""); code != http.StatusNotFound {
			return bed.Got(text)
		}
		return ""
	})

	// What excludes itself is on different nodes.
	c.register(`"Width":3`, `"Width":2`, `{"Colocate":["hot"]}`, `{"Exlocate":["ingest"]}`, `{"Isolated":true}`, `{"Exlocate":["ingest"]}`, `"Pool":"edge","Exlocate":["ingest"]}`, `"Pool":"edge"}`)
	c.settled(4, 1)
	nodes := map[string]bool{}
	for name, p := range c.pes("telemetry") {
		if name != "telemetry.source[0]" {
			nodes[p.Allocation.NodeName] = true
		}
	}
	if len(nodes) != 3 {
		t.Errorf("they are on %v", nodes)
	}
}
