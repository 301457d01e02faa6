package streams_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth"
	"berth/internal/streams"
	"berth/jobspec"
)

// party is a job as it runs.
type party struct {
	row  *berth.StreamJob
	job  *berth.Job
	plan *berth.StreamPlan
}

func run(t *testing.T, file string, id, uid uint64, vars ...string) *party {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	j, err := jobspec.Parse(t.Context(), jobspec.File{Name: file, Text: text}, jobspec.Options{Vars: vars})
	if err != nil {
		t.Fatal(err)
	}
	p := &party{job: j, plan: expand(t, j, nil)}
	p.row = &berth.StreamJob{Key: j.Key(), UID: berth.UID{Index: uid}, StreamID: id, Plan: p.plan}
	return p
}

func (p *party) of(kind string) []*berth.Object {
	return resources(p.job, p.plan, p.row.UID, kind)
}

// launched is the content ID that a processing element was launched with: of the
// sink another than it is to be launched with next.
func launched(pe *berth.Object) string {
	if pe.Object.PE.Group == "sink" {
		return "sha256:before"
	}
	return pe.Object.PE.ContentID
}

// The document says what the contract shows of it: static connections first,
// then the routes; no address while a target does not run.
func TestDocument(t *testing.T) {
	telemetry, alerts := run(t, "../../examples/stream/telemetry.berth.hcl", 12, 0xa31), run(t, "../../examples/stream/alerts.berth.hcl", 13, 0xb00)
	exports, imports := append(telemetry.of(berth.KindExport), alerts.of(berth.KindExport)...), append(telemetry.of(berth.KindImport), alerts.of(berth.KindImport)...)
	addresses := map[string]string{"telemetry.sink[0]/in": "10.0.0.7:21833", "alerts.ingest[0]/in": "10.0.0.9:25001"}
	describe := func(p *party, name string) *streams.Document {
		for _, r := range p.of(berth.KindPE) {
			if r.Name != name {
				continue
			}
			r.PE = &berth.PEState{Launch: 1, ContentID: launched(r)}
			return streams.Describe(&streams.Subject{
				Version: 7, Job: p.row, PE: r, Config: p.plan.Object(berth.KindConfig, name).Config, Routes: streams.Routes(exports, imports),
				Bind: func(label string) string { return "0.0.0.0:23412" },
				Target: func(owner berth.UID, pe, input string) (string, uint64) {
					want := telemetry.row.UID
					if strings.HasPrefix(pe, "alerts") {
						want = alerts.row.UID
					}
					if owner != want {
						t.Errorf("%s is looked for with owner %v", pe, owner)
					}
					return addresses[pe+"/"+input], 1
				},
			})
		}
		t.Fatalf("there is no %s", name)
		return nil
	}
	got := show(t, describe(telemetry, "telemetry.transform[1]"))
	want := `{
  "Version": 7,
  "Job": {
    "Name": "telemetry",
    "ID": 12,
    "UID": "j-0000000000000a31-00",
    "Generation": 0
  },
  "PE": {
    "ID": 2,
    "Name": "telemetry.transform[1]",
    "UID": "p-000000000027cf6e-03",
    "LaunchCount": 1,
    "ContentID": "` + telemetry.plan.Object(berth.KindPE, "telemetry.transform[1]").PE.ContentID + `",
    "Region": "score",
    "Channel": 1,
    "MaxChannels": 3
  },
  "Inputs": [
    {
      "Name": "in",
      "Bind": "0.0.0.0:23412",
      "From": [
        {
          "Job": "telemetry",
          "PE": "telemetry.source[0]",
          "Output": "raw",
          "Kind": "static"
        }
      ]
    }
  ],
  "Outputs": [
    {
      "Name": "scored",
      "Distribution": "broadcast",
      "To": [
        {
          "Kind": "static",
          "Job": "telemetry",
          "PE": "telemetry.sink[0]",
          "Input": "in",
          "Addr": "10.0.0.7:21833",
          "LaunchCount": 1
        },
        {
          "Kind": "dynamic",
          "Job": "alerts",
          "PE": "alerts.ingest[0]",
          "Input": "in",
          "Addr": "10.0.0.9:25001",
          "LaunchCount": 1,
          "Filter": "score \u003e 0.9",
          "Import": "by-name"
        }
      ]
    }
  ]
}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if d := describe(telemetry, "telemetry.sink[0]"); d.PE.ContentID != "sha256:before" {
		t.Errorf("it was launched with %s", d.PE.ContentID)
	}
	var in, out []string
	for _, d := range []*streams.Document{describe(alerts, "alerts.ingest[0]"), describe(telemetry, "telemetry.source[0]")} {
		for _, i := range d.Inputs {
			for _, x := range i.From {
				in = append(in, fmt.Sprint(i.Name, " ", x.Kind, " ", x.PE, ".", x.Output, " ", x.Export))
			}
		}
		for _, o := range d.Outputs {
			for _, x := range o.To {
				out = append(out, fmt.Sprintf("%s %s %s.%s %q %s %s", o.Name, o.Distribution, x.PE, x.Input, x.Addr, x.Import, x.Congestion))
			}
		}
	}
	wantIn := []string{
		"in dynamic telemetry.transform[0].scored scores-by-name", "in dynamic telemetry.transform[1].scored scores-by-name",
		"in dynamic telemetry.transform[2].scored scores-by-name", "raw dynamic telemetry.source[0].raw raw-by-property",
	}
	wantOut := []string{
		`raw round-robin telemetry.transform[0].in ""  `, `raw round-robin telemetry.transform[1].in ""  `,
		`raw round-robin telemetry.transform[2].in ""  `, `raw round-robin alerts.ingest[0].raw "" by-property drop`,
	}
	if diff := cmp.Diff(wantIn, in) + cmp.Diff(wantOut, out); diff != "" {
		t.Error(diff)
	}
}

func show(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A processing element that imports what it exports is told so once at each
// end, though the route was found from both.
func TestDocumentOfALoop(t *testing.T) {
	d := &draft{groups: []group{{name: "a", in: 1, out: 1}}, exports: []crossing{{port: "a.o0", id: "s"}}, imports: []crossing{{port: "a.i0", id: "s"}}}
	p := &party{job: d.job(t, "j", nil)}
	p.plan = expand(t, p.job, nil)
	p.row = &berth.StreamJob{Key: p.job.Key(), UID: berth.UID{Index: 1}, Plan: p.plan}
	pe := p.of(berth.KindPE)[0]
	pe.PE = &berth.PEState{Launch: 2}
	routes := streams.Routes(p.of(berth.KindExport), p.of(berth.KindImport))
	if len(routes) != 1 {
		t.Fatalf("%d routes", len(routes))
	}
	got := streams.Describe(&streams.Subject{
		Job: p.row, PE: pe, Config: p.plan.Object(berth.KindConfig, pe.Name).Config, Routes: append(routes, routes...),
		Bind:   func(string) string { return "" },
		Target: func(berth.UID, string, string) (string, uint64) { return "", 2 },
	})
	in := []streams.DocumentInput{{Name: "i0", From: []streams.DocumentSource{{Job: "j", PE: "j.a[0]", Output: "o0", Kind: streams.Dynamic, Export: "e0"}}}}
	out := []streams.DocumentOutput{{Name: "o0", Distribution: "broadcast", To: []streams.DocumentTarget{{Kind: streams.Dynamic, Job: "j", PE: "j.a[0]", Input: "i0", LaunchCount: 2, Import: "i0"}}}}
	if diff := cmp.Diff(in, got.Inputs) + cmp.Diff(out, got.Outputs); diff != "" {
		t.Error(diff)
	}
}
