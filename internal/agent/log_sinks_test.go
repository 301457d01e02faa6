package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/agent/ship"
)

// What tasks write comes to the sinks, each line once although the agent is
// restarted, and not from tasks that want none or whose logs are disabled.
func TestOutputIsSentToSinks(t *testing.T) {
	w := newWorld(t)
	out := filepath.Join(t.TempDir(), "out.json")
	w.cfg = func(c *Config) {
		c.LogSinks = map[string]ship.Config{
			"all":  {Type: ship.File, Address: out, MaxSizeMB: 1},
			"rare": {Type: ship.File, Address: out + ".rare", MaxSizeMB: 1, Optional: true},
		}
	}
	lines := func(path string) string {
		b, _ := os.ReadFile(path)
		var got []string
		for line := range strings.Lines(string(b)) {
			var o map[string]string
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatal(err)
			}
			if o["alloc_id"] == "" || o["node_id"] == "" || o["job"] != "job" || o["stream"] != "stdout" {
				t.Errorf("labels: %v", o)
			}
			got = append(got, o["task"]+":"+o["message"])
		}
		return strings.Join(got, " ")
	}
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(5 * time.Second)
		w.place(newAlloc(t, "service", mockTask("main", `"run_for":"100h","stdout_string":"one\n"`)+","+
			mockTask("quiet", `"run_for":"100h","stdout_string":"none\n"`, `,"Meta":{"logs.sinks":"none"}`)+","+
			mockTask("off", `"run_for":"100h","stdout_string":"off\n"`, `,"LogConfig":{"Disabled":true}`)+","+
			mockTask("both", `"run_for":"100h","stdout_string":"two\n"`, `,"Meta":{"logs.sinks":"all, rare"}`)))
		pause(10 * time.Second)
		end()
		_, end = w.agent(t)
		pause(10 * time.Second)
		w.place(newAlloc(t, "batch", mockTask("next", `"run_for":"1s","stdout_string":"three\n"`)))
		pause(30 * time.Second)
		end()
	})
	got := lines(out)
	for _, want := range []string{"main:one", "both:two", "next:three"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s is not there once: %s", want, got)
		}
	}
	if strings.Contains(got, "quiet:") || strings.Contains(got, "off:") {
		t.Error(got)
	}
	if rare := lines(out + ".rare"); rare != "both:two" {
		t.Errorf("the optional sink got %s", rare)
	}
}
