//go:build faults

package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/test/bed"
)

// route is one connection from an export to an import.
type route struct {
	From, To struct{ JobID, JobUID, PE, Port string }
	By       string
	Filter   string
}

// routes waits until there are so many routes to alerts, and returns them.
func (c *cluster) routes(byName, byProperty int) (all []route) {
	c.Helper()
	c.until(fmt.Sprintf("there are %d routes by name and %d by property", byName, byProperty), func() string {
		all = nil
		c.get("/v1/stream/routes?job=alerts", &all)
		count := map[string]int{}
		for _, r := range all {
			count[r.By]++
		}
		if count["name"] == byName && count["property"] == byProperty {
			return ""
		}
		return fmt.Sprint(all)
	})
	return all
}

// Exports and imports find each other, whichever was first.
func TestS21(t *testing.T) {
	long(t)
	c := newCluster(t, options{})
	for _, alertsFirst := range []bool{true, false} {
		if alertsFirst {
			c.must(http.MethodPut, "/v1/jobs", alertsText)
		}
		first := c.register()
		if !alertsFirst {
			c.must(http.MethodPut, "/v1/jobs", alertsText)
		}
		c.settled(5, 1)
		c.settledJob("alerts", 1, 1)
		for _, r := range c.routes(3, 1) {
			if r.To.PE != "alerts.ingest[0]" || (r.By == "name") != strings.HasPrefix(r.From.PE, "telemetry.transform[") || (r.By == "name") != (r.Filter == "score > 0.9") {
				t.Errorf("%+v", r)
			}
		}
		if alertsFirst {
			c.remove("propagation=foreground")
			c.gone(first)
			c.must(http.MethodDelete, "/v1/job/alerts?purge=true&propagation=foreground", "")
			c.until("alerts is gone", func() string {
				if code, text := c.do(http.MethodGet, "/v1/job/alerts", ""); code != http.StatusNotFound {
					return bed.Got(text)
				}
				return ""
			})
		}
	}
	c.must(http.MethodPut, "/v1/jobs", telemetry(`"AllowFilter":true`, `"AllowFilter":false`))
	c.settled(5, 0)
	c.routes(0, 1)
	c.must(http.MethodPut, "/v1/jobs", telemetry())
	c.settled(5, 0)
	c.routes(3, 1)

	source := c.pes("telemetry")["telemetry.source[0]"]
	told := func() bool { // what its task reads
		f := c.onDisk(source.Allocation)
		return len(f.addrs("alerts")) > 0
	}
	c.until("the exporter is told of its importer", func() string {
		if !told() {
			return "it is not"
		}
		return ""
	})
	exports := c.resources("job=telemetry&kind=Export")
	i := slices.IndexFunc(exports, func(r resource) bool { return strings.HasPrefix(r.Name, source.Name) })
	c.must(http.MethodPut, "/v1/stream/export/"+exports[i].UID+"/properties", `{"Properties":{"kind":"raw","priority":2,"regions":["eu","us"]}}`)
	c.until("the exporter is told that nobody imports", func() string {
		if told() {
			return "it is not"
		}
		return ""
	})
	c.routes(3, 0)

	c.must(http.MethodPut, "/v1/jobs", with(alertsText, `"ID":"alerts"`, `"ID":"elsewhere"`, `"Scope":"Default"`, `"Scope":"Other"`, `"StreamID":"scores"`, `"Scope":"Other","StreamID":"scores"`))
	c.settledJob("elsewhere", 1, 1)
	var wrong []route
	if c.get("/v1/stream/routes?job=elsewhere", &wrong); len(wrong) > 0 {
		t.Errorf("of another scope: %+v", wrong)
	}
	if code, text := c.do(http.MethodPut, "/v1/jobs", with(alertsText, `"ID":"alerts"`, `"ID":"malformed"`, `priority >= 3 &&`, `priority >= &&`)); code != http.StatusBadRequest {
		t.Errorf("%d %s", code, text)
	}

	old := c.standing("telemetry").UID
	c.remove("propagation=foreground")
	c.gone(old)
	c.routes(0, 0)
	first := c.halfway(slowly(4)...)
	c.marked(first)
	c.routes(0, 0)
	now := c.settled(5, 1)
	c.recovered(now, first, 1)
	for _, r := range c.routes(3, 1) {
		if r.From.JobUID != now.UID {
			t.Errorf("%+v", r)
		}
	}
	for _, e := range c.recorder.Events() { // what alerts runs was not touched
		if e.Kind == "Allocation" && e.Name == "alerts.ingest[0]" && e.LaunchCount > 1 {
			t.Errorf("%v", &e)
		}
	}
}
