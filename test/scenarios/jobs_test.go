//go:build faults

package scenarios

import (
	"fmt"
	"net/http"
	"strings"
)

// sleeps is the command of tasks: it tells where it reports, and ends when it is
// told to.
const sleeps = "echo api=$STREAM_API; exec sleep 100000"

const config = `"KillTimeout":5000000000,"Config":{"command":"/bin/sh","args":["-c","` + sleeps + `"]}`

// slowly has tasks take so many seconds to stop: they are told to by a signal
// that means nothing to them, however early in their lives, and are killed when
// their time is over.
func slowly(seconds int) []string {
	return []string{config, fmt.Sprintf(`"KillSignal":"SIGWINCH","KillTimeout":%d000000000,`, seconds) + strings.SplitAfterN(config, ",", 2)[1]}
}

// sinkSooner has the sink take less time to stop than the others.
func sinkSooner(seconds, others int) []string {
	sink, quick := `"Isolated":true},"Inputs":[{"Name":"in","Port":"in"}]},"Tasks":[{"Name":"t","Driver":"raw_exec",`, slowly(seconds)
	return append([]string{sink + config, sink + quick[1]}, slowly(others)...)
}

const resources = `"Resources":{"CPU":10,"MemoryMB":20}`

const task = `{"Name":"t","Driver":"raw_exec",` + config + `,` + resources + `}`

// The telemetry job of the specification, T: five processing elements.
const telemetryText = `{"Job":{"ID":"telemetry","Type":"stream","Datacenters":["dc1"],"Stream":{
	"Application":{"Name":"telemetry","Scope":"Default"},
	"Submission":{"Timeout":300000000000},
	"HostPools":[{"Name":"edge","Tags":["ssd","rack-a"],"Size":2},{"Name":"named","Hosts":["n3"]}],
	"Regions":[{"Name":"score","Groups":["transform"],"Width":3}],
	"Streams":[{"Name":"raw","From":"source.raw","To":["transform.in"],"Distribution":"round-robin"},{"Name":"scored","From":"transform.scored","To":["sink.in"]}],
	"Exports":[
		{"Name":"scores-by-name","From":"transform.scored","StreamID":"scores","AllowFilter":true},
		{"Name":"raw-by-property","From":"source.raw","Congestion":"drop","Properties":{"kind":"raw","priority":3,"regions":["eu","us"]}}]},
"TaskGroups":[
	{"Name":"source","Stream":{"Placement":{"Pool":"edge","Exlocate":["ingest"]},"Outputs":[{"Name":"raw"}]},"Tasks":[` + task + `]},
	{"Name":"transform","Networks":[{"DynamicPorts":[{"Label":"in"}]}],
		"Stream":{"Placement":{"Colocate":["hot"]},"Inputs":[{"Name":"in","Port":"in"}],"Outputs":[{"Name":"scored"}]},"Tasks":[` + task + `]},
	{"Name":"sink","Networks":[{"DynamicPorts":[{"Label":"in"}]}],
		"Stream":{"Placement":{"Isolated":true},"Inputs":[{"Name":"in","Port":"in"}]},"Tasks":[` + task + `]}]}}`

// alertsText is the job that imports what T exports.
const alertsText = `{"Job":{"ID":"alerts","Type":"stream","Datacenters":["dc1"],"Stream":{
	"Imports":[
		{"Name":"by-name","Into":"ingest.in","Application":"telemetry","StreamID":"scores","Filter":"score > 0.9"},
		{"Name":"by-property","Into":"ingest.raw","Scope":"Default","Subscription":"kind == \"raw\" && priority >= 3 && \"eu\" in regions"}]},
"TaskGroups":[
	{"Name":"ingest","Networks":[{"DynamicPorts":[{"Label":"in"},{"Label":"raw"}]}],
		"Stream":{"Inputs":[{"Name":"in","Port":"in"},{"Name":"raw","Port":"raw"}]},"Tasks":[` + task + `]}]}}`

// with returns a text in which pairs of change replace parts.
func with(text string, change ...string) string {
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(text, change[i]) {
			panic(change[i])
		}
		text = strings.ReplaceAll(text, change[i], change[i+1])
	}
	return text
}

func telemetry(change ...string) string { return with(telemetryText, change...) }

// withImport makes it T+, which has one of every kind.
var withImport = []string{`"Exports":[`, `"Imports":[{"Name":"own","Into":"sink.in","StreamID":"scores"}],"Exports":[`}

// register registers T and returns its UID.
func (c *cluster) register(change ...string) string {
	c.Helper()
	c.must(http.MethodPut, "/v1/jobs", telemetry(change...))
	var j struct{ UID string }
	c.get("/v1/job/telemetry", &j)
	return j.UID
}

// remove asks for T to be deleted.
func (c *cluster) remove(query string) (code int, text string) {
	c.Helper()
	return c.do(http.MethodDelete, "/v1/job/telemetry?purge=true&"+query, "")
}
