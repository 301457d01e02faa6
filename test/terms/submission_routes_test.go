//go:build faults

package terms

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/eventually"
	"berth/internal/failpoint"
	"berth/internal/state"
	"berth/op"
)

// alerts is the job of the specification's part 2.2 that imports what telemetry
// exports; pairs of change replace parts of its text.
func alerts(change ...string) string {
	text := `{"Job":{"ID":"alerts","Type":"stream","Datacenters":["dc1"],"Stream":{"Imports":[
		{"Name":"by-name","Into":"ingest.in","Application":"telemetry","StreamID":"scores","Filter":"score > 0.9"},
		{"Name":"by-property","Into":"ingest.raw","Scope":"Default","Subscription":"kind == \"raw\" && priority >= 3"}]},
	"TaskGroups":[{"Name":"ingest","Networks":[{"DynamicPorts":[{"Label":"in"},{"Label":"raw"}]}],
		"Stream":{"Inputs":[{"Name":"in","Port":"in"},{"Name":"raw","Port":"raw"}]},
		"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"},"Resources":{"CPU":10,"MemoryMB":10}}]}]}}`
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			panic(change[i])
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	return text
}

var alertsKey = berth.JobKey{Namespace: berth.DefaultNamespace, ID: "alerts"}

// read decodes what any server answers.
func (s *streams) read(path string, into any) {
	s.t.Helper()
	if err := eventually.Decode([]byte(s.must(http.MethodGet, path, "")), into); err != nil {
		s.t.Fatal(err)
	}
}

// routes tells the routes of alerts, an exporter and how it was found a route.
func (s *streams) routes() (out []string, list []op.StreamRoute) {
	s.t.Helper()
	s.read("/v1/stream/routes?job=alerts", &list)
	for _, r := range list {
		out = append(out, r.From.PE+" "+r.By)
		if r.To.PE != "alerts.ingest[0]" || r.By == "name" && r.Filter != "score > 0.9" {
			s.t.Errorf("%+v", r)
		}
	}
	slices.Sort(out)
	return out, list
}

func (s *streams) wantRoutes(when string, want ...string) {
	s.t.Helper()
	if got, _ := s.routes(); !slices.Equal(got, want) {
		s.t.Errorf("%s the routes are %q, want %q", when, got, want)
	}
}

// leads says where the file of a processing element leads to with an output.
func (s *streams) leads(pe, output string) (out []string) {
	s.t.Helper()
	var d op.ConnectivityFile
	s.read("/v1/stream/pe/"+url.PathEscape(pe)+"/connectivity-file", &d)
	for _, o := range d.Outputs {
		for _, t := range o.To {
			if o.Name == output && t.Kind == "dynamic" {
				out = append(out, strings.TrimSpace(fmt.Sprint(t.PE, ".", t.Input, " ", t.Filter)))
			}
		}
	}
	return out
}

var (
	byName     = []string{"telemetry.transform[0] name", "telemetry.transform[1] name", "telemetry.transform[2] name"}
	byProperty = "telemetry.source[0] property"
	all        = append([]string{byProperty}, byName...)
)

// S21: what one job exports feeds what another imports, whichever comes first;
// it is what both say of it, at once.
func TestS21ImportExport(t *testing.T) {
	for _, first := range []string{"telemetry", "alerts"} {
		bubbled(t, func(t *testing.T) {
			s := newStreams(t, 21, 4)
			jobs := []func(){func() { s.register(); s.submitted(telemetryKey, 5, 1) }, func() {
				s.must(http.MethodPut, "/v1/jobs", alerts())
				s.submitted(alertsKey, 1, 1)
			}}
			if first == "alerts" {
				slices.Reverse(jobs)
			}
			jobs[0]()
			s.wantRoutes("with one of the jobs")
			jobs[1]()
			s.wantRoutes("with both", all...)
			for pe, want := range map[string]string{"telemetry.transform[1]": "alerts.ingest[0].in score > 0.9", "telemetry.source[0]": "alerts.ingest[0].raw"} {
				output := "scored"
				if strings.Contains(pe, "source") {
					output = "raw"
				}
				if got := fmt.Sprint(s.leads(pe, output)); got != "["+want+"]" {
					t.Errorf("%s leads to %s, want %s", pe, got, want)
				}
			}
			if first == "alerts" {
				return
			}

			before := s.now().StreamOf(telemetryKey)
			s.must(http.MethodPut, "/v1/stream/export/"+url.PathEscape("telemetry.source[0]/by-property")+"/properties", `{"Properties":{"kind":"raw","priority":2}}`)
			s.pass(2 * time.Second)
			s.wantRoutes("at priority 2", byName...)
			if got := s.leads("telemetry.source[0]", "raw"); len(got) > 0 {
				t.Errorf("at priority 2 the exporter's file leads to %q", got)
			}
			if now := s.now().StreamOf(telemetryKey); now.Generation != before.Generation || now.Version != before.Version {
				t.Errorf("other properties made generation %d of version %d", now.Generation, now.Version)
			}

			s.register(`"StreamID":"scores"`, `"StreamID":"scores","AllowFilter":false`)
			s.submitted(telemetryKey, 5, 1)
			s.wantRoutes("with allow_filter = false")
		})
	}
}

// S21: scopes part what names and properties would join, and what cannot be read
// is refused.
func TestS21ScopesAndExpressions(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 21, 4)
		s.register()
		s.submitted(telemetryKey, 5, 1)
		s.must(http.MethodPut, "/v1/jobs", alerts(`"Scope":"Default"`, `"Scope":"Other"`, `"StreamID":"scores"`, `"StreamID":"scores","Scope":"Other"`))
		s.submitted(alertsKey, 1, 1)
		s.wantRoutes("in another scope")
		index := s.now().Index
		for _, bad := range [][]string{{`priority >= 3`, `priority >=`}, {`score > 0.9`, `score > (`}} {
			code, text := s.do(s.any(), http.MethodPut, "/v1/jobs", alerts(bad...))
			if code != http.StatusBadRequest || !strings.Contains(text, "column") {
				t.Errorf("%s: %d %s", bad[1], code, text)
			}
		}
		if s.now().Index != index {
			t.Error("what was refused was written")
		}
	})
}

// S21: who imports loses its routes when the exporting job is marked to begin
// again, and gets those of the next incarnation.
func TestS21RoutesAcrossARecovery(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 21, 4, slowly(10*time.Second))
		s.must(http.MethodPut, "/v1/jobs", alerts())
		s.submitted(alertsKey, 1, 1)
		s.arm("addAlloc", failpoint.After, 3, failpoint.Exit)
		first := s.register()
		s.marked(first)
		s.wantRoutes("at the mark")
		s.wait("the next incarnation has routes", func(now *state.Snapshot) bool {
			list, of := s.routes()
			for _, r := range of {
				if r.From.JobUID == first.Text('j') {
					t.Errorf("%+v", r)
				}
			}
			return len(list) == 4
		})
		row := s.submitted(telemetryKey, 5, 1)
		s.recovered(row, first, 1)
		_, of := s.routes()
		for _, r := range of {
			if pe := s.now().ResourceNamed(row.UID, berth.KindPE, r.From.PE); r.From.JobUID != row.UID.Text('j') || pe == nil || r.From.PEUID != pe.UID.Text('p') {
				t.Errorf("%+v", r)
			}
		}
	})
}

// S15: what does not block does not hold its owner. Of variables, which the
// scenario names, there are none yet; what a stream job has that does not block
// is an allocation that has ended: it is there when its job has gone, and goes as
// all that ended does, with age or when an operator asks for it.
func TestS15NonBlockingDependents(t *testing.T) {
	bubbled(t, func(t *testing.T) {
		s := newStreams(t, 15, 4, slowly(5*time.Second))
		first := s.register()
		s.submitted(telemetryKey, 5, 1)
		pe := s.pe(s.now(), "transform[1]")
		old := runs(s.now(), pe)
		s.must(http.MethodPut, "/v1/allocation/"+old.ID.String()+"/stop", "")
		s.wait("it ended, and its processing element runs again", func(now *state.Snapshot) bool {
			a := runs(now, pe)
			return now.Alloc(old.ID).Ended() && a != nil && a.Client == berth.ClientRunning
		})
		s.submitted(telemetryKey, 5, 0)
		for a := range s.now().AllocsOf(telemetryKey) {
			if o := a.Owners(); len(o) != 1 || o[0].Kind != berth.KindPE || o[0].Block != (a.ID != old.ID) {
				t.Errorf("%s is owned by %+v", a.Name(), o)
			}
		}
		if code, text := s.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if n := s.now().Blocking(telemetryKey, first); n != 5 {
			t.Errorf("%d allocations hold the job, want the 5 that run", n)
		}
		now := s.wait("it is gone", func(now *state.Snapshot) bool { return now.Job(telemetryKey) == nil })
		s.quiet(now, first)
		if a := now.Alloc(old.ID); a == nil || a.Owners()[0].Block {
			t.Errorf("what had ended before the deletion: %+v", a)
		}
		s.must(http.MethodPut, "/v1/system/gc", "")
		s.wait("what is left is collected", func(now *state.Snapshot) bool { return now.Alloc(old.ID) == nil })
	})
}
