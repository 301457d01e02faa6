package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/op"

	"github.com/charmbracelet/x/ansi"
)

// A board shows each group, then the allocations that need a look first, and
// counts the rest.
func TestBoard(t *testing.T) {
	now := time.Unix(1000, 0)
	is := func(b bool) *berth.AllocDeploymentStatus { return &berth.AllocDeploymentStatus{Healthy: &b} }
	alloc := func(n byte, name string, c berth.ClientStatus, h *berth.AllocDeploymentStatus) op.AllocStub {
		return op.AllocStub{ID: berth.AllocID{n}, Name: "web." + name, TaskGroup: name[:strings.IndexByte(name, '[')], NodeName: "n1", ClientStatus: c, DeploymentStatus: h, CreateTime: now.Add(-time.Minute).UnixNano()}
	}
	list := []op.AllocStub{
		alloc(1, "api[0]", berth.ClientRunning, is(true)), alloc(2, "api[1]", berth.ClientRunning, is(false)), alloc(3, "api[2]", berth.ClientPending, nil),
		alloc(4, "api[3]", berth.ClientRunning, &berth.AllocDeploymentStatus{}), alloc(5, "db[0]", berth.ClientFailed, nil),
	}
	list[1].TaskStates = map[string]*op.TaskState{"app": {Restarts: 2}}
	stopped := alloc(6, "api[4]", berth.ClientRunning, nil)
	stopped.DesiredStatus = berth.DesiredStop
	b := &board{list: append(list, stopped), rollout: &berth.Deployment{TaskGroups: map[string]*berth.DeploymentState{
		"api": {DesiredTotal: 4, PlacedAllocs: 4, HealthyAllocs: 1, UnhealthyAllocs: 1}, "db": {DesiredTotal: 1, PlacedAllocs: 1}, "late": {DesiredTotal: 2},
	}}}
	got := ansi.Strip(strings.Join(b.lines(now, false), "\n"))
	const want = `api   ██░░░░░░░░  1 of 4 healthy, 4 placed, 1 unhealthy
db    ░░░░░░░░░░  0 of 1 healthy, 1 placed
late  ░░░░░░░░░░  0 of 2 healthy, 0 placed
  05000000 db[0]   failed     n1  1m
  02000000 api[1]  unhealthy  n1  1m  2 restarts
  03000000 api[2]  pending    n1  1m
  04000000 api[3]  running    n1  1m
  01000000 api[0]  healthy    n1  1m`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for range 20 {
		b.list = append(b.list, list[0])
	}
	b.rollout = nil
	if lines := b.lines(now, false); len(lines) != 2+boardRows+1 || ansi.Strip(lines[0]) != "api  █████████░  23 of 24 started" || strings.TrimSpace(lines[len(lines)-1]) != "and 17 more allocations" {
		t.Errorf("%q", lines)
	}
}

// What stands below the lines that stay is overwritten, however many lines it has,
// and no line is wider than the terminal.
func TestTheLiveLinesAreOverwritten(t *testing.T) {
	var out bytes.Buffer
	lines := []string{red + "one" + normal, strings.Repeat("long ", 20)}
	p := &progress{out: &out, terminal: true, width: 30, status: func() string { return "status" }, below: func() []string { return lines }}
	p.draw()
	lines = lines[:1]
	p.line("this stays")
	p.draw()
	p.erase()
	// A terminal of 30 columns.
	screen, row := []string{""}, 0
	for rest := out.String(); rest != ""; {
		switch {
		case strings.HasPrefix(rest, "\x1b[1A"):
			row, rest = row-1, rest[4:]
		case strings.HasPrefix(rest, "\x1b[K"):
			screen[row], rest = "", rest[3:]
		case rest[0] == '\x1b':
			rest = rest[strings.IndexByte(rest, 'm')+1:]
		case rest[0] == '\r':
			rest = rest[1:]
		case rest[0] == '\n':
			if row, rest = row+1, rest[1:]; row == len(screen) {
				screen = append(screen, "")
			}
		default:
			n := strings.IndexAny(rest, "\x1b\r\n")
			if n < 0 {
				n = len(rest)
			}
			screen[row] += rest[:n]
			if w := ansi.StringWidth(screen[row]); w >= 30 {
				t.Errorf("%q is %d columns wide", screen[row], w)
			}
			rest = rest[n:]
		}
	}
	if got := strings.TrimRight(strings.Join(screen, "\n"), "\n"); got != "this stays" || row != 1 {
		t.Errorf("the screen shows %q, the cursor is in line %d", got, row)
	}
}
