// Package ui drives the web UI of a real agent in a real browser, Debian's
// Chromium. It promises that each page shows what it is for, in light and dark,
// on a desktop and on a phone; that axe-core finds nothing serious on any; and
// that no page runs what jobs, logs and files contain. Screenshots are written to
// bin/ui.
package ui

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/freeport"
	"berth/test/bed"
)

// long asks for all pages in all looks, as make ui-test does.
var long = os.Getenv("BERTH_LONG") != ""

// shots is where screenshots go.
var shots = filepath.Join("..", "..", "bin", "ui")

//go:embed testdata/axe.min.js
var axe string

func TestMain(m *testing.M) { os.Exit(bed.Main(m)) }

// cluster is one agent that is server and node.
type cluster struct {
	t     *testing.T
	bed   *bed.Bed
	agent *bed.Agent
	addr  string
	serf  string // where other servers join it
	token string
}

// newCluster starts an agent and waits until its node is ready.
func newCluster(t *testing.T, config string) *cluster {
	t.Helper()
	b := bed.ForTest(t)
	var ports [3]int
	for i := range ports {
		var err error
		if ports[i], err = freeport.Take(); err != nil {
			t.Fatal(err)
		}
	}
	file, err := b.File("agent.hcl", fmt.Sprintf(`
name = "n1"
data_dir = %q
ports {
  http = %d
  rpc  = %d
  serf = %d
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled       = true
  cgroup_parent = %q
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
%s`, filepath.Join(b.Dir, "data"), ports[0], ports[1], ports[2], b.CgroupParent(), config))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bed: b, addr: fmt.Sprintf("http://127.0.0.1:%d", ports[0]), serf: fmt.Sprintf("127.0.0.1:%d", ports[2])}
	c.agent = b.Agent("one", "-config", file)
	c.start()
	return c
}

// start starts the agent and waits until its server leads.
func (c *cluster) start() {
	c.t.Helper()
	if err := c.agent.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.until("a leader", func() string {
		a, err := bed.Call(c.t.Context(), http.MethodGet, c.addr+"/v1/status/leader", "")
		if err != nil || len(a.Text) < 3 {
			return fmt.Sprint(err, a.Text)
		}
		return ""
	})
}

func (c *cluster) until(what string, amiss func() string) {
	c.t.Helper()
	if err := bed.Until(c.t.Context(), what, amiss); err != nil {
		c.t.Fatal(err)
	}
}

// get reads a path of the API.
func (c *cluster) get(path string) string {
	a, err := bed.Call(c.t.Context(), http.MethodGet, c.addr+path, "")
	if err != nil {
		return err.Error()
	}
	return a.Text
}

// file writes a file and returns its path.
func (c *cluster) file(name, text string) string {
	c.t.Helper()
	path, err := c.bed.File(name, text)
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}

// berth runs a command, which must succeed, and returns its output.
func (c *cluster) berth(args ...string) string {
	c.t.Helper()
	r, err := c.bed.Run(c.t.Context(), c.bed.Binary, []string{"BERTH_ADDR=" + c.addr, "BERTH_TOKEN=" + c.token}, args...)
	if err != nil || r.Code != 0 {
		c.t.Fatal(err, r)
	}
	return r.Out
}

// run submits a job file.
func (c *cluster) run(name, text string) {
	c.t.Helper()
	c.berth("job", "run", "-detach", c.file(name+".nomad.hcl", text))
}

// first returns a field of the first object of a list of the API.
func (c *cluster) first(path, field string) string {
	var list []map[string]any
	_ = json.Unmarshal([]byte(c.get(path)), &list)
	if len(list) == 0 {
		return ""
	}
	s, _ := list[0][field].(string)
	return s
}

// shows waits until an answer of the API contains a text.
func (c *cluster) shows(path, text string) {
	c.t.Helper()
	c.until(path+" contains "+text, func() string {
		if got := c.get(path); !strings.Contains(got, text) {
			return bed.Got(got)
		}
		return ""
	})
}
