package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// cluster is a source of a few jobs, whose allocations have logs.
type cluster struct {
	jobs  int
	fails error
	asked []Place
}

func (c *cluster) Load(_ context.Context, at Place) (Page, error) {
	c.asked = append(c.asked, at)
	if c.fails != nil {
		return Page{}, c.fails
	}
	p := Page{Head: []string{"region global"}, State: 1, Empty: "nothing here"}
	switch at.Kind {
	case "jobs":
		p.Columns = []string{"Job", "Status"}
		for i := range c.jobs {
			p.Rows = append(p.Rows, Row{Cells: []string{fmt.Sprintf("job-%02d", i), "running"}, Open: Place{Kind: "job", ID: fmt.Sprint(i), Label: fmt.Sprintf("job-%02d", i)}})
		}
	case "job":
		p.Columns = []string{"Alloc", "Status"}
		p.Rows = []Row{{Cells: []string{"a1", "failed"}, Open: Place{Kind: "alloc", ID: "a1"}, Logs: Place{Kind: "logs", ID: "a1", Stream: "stdout"}}}
	case "logs":
		for i := range 100 {
			p.Text = append(p.Text, fmt.Sprintf("%s line %d", at.Stream, i))
		}
	default:
		p.Columns = []string{"Name"}
	}
	return p, nil
}

// screen drives a model without a terminal.
type screen struct {
	t *testing.T
	m *model
}

func newScreen(t *testing.T, c *cluster) *screen {
	s := &screen{t, newModel(t.Context(), c, Options{Every: time.Hour, Colors: map[string]string{"failed": red}})}
	s.send(tea.WindowSizeMsg{Width: 60, Height: 12})
	s.do(s.m.load())
	return s
}

// do runs a command that loads something.
func (s *screen) do(cmd tea.Cmd) {
	if cmd != nil {
		s.send(cmd())
	}
}

func (s *screen) send(msg tea.Msg) {
	_, cmd := s.m.Update(msg)
	if _, quits := msg.(tea.QuitMsg); !quits {
		s.do(cmd)
	}
}

// keys presses keys by name; others are typed.
func (s *screen) keys(keys ...string) {
	names := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "tab": tea.KeyTab, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		if code, ok := names[k]; ok {
			s.send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			s.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

func (s *screen) shows(want ...string) {
	s.t.Helper()
	got := s.m.render()
	for _, w := range want {
		if no, ok := strings.CutPrefix(w, "!"); ok && strings.Contains(got, no) || !ok && !strings.Contains(got, w) {
			s.t.Fatalf("want %q:\n%s", w, got)
		}
	}
}

// A page is shown although it takes longer to load than the interval, and what is
// still being loaded is not asked for again.
func TestAPageLongerThanTheInterval(t *testing.T) {
	c := &cluster{jobs: 3}
	s := &screen{t, newModel(t.Context(), c, Options{Every: time.Hour})}
	s.send(tea.WindowSizeMsg{Width: 60, Height: 12})
	first := s.m.load()
	for range 3 {
		s.m.Update(tickMsg{})
	}
	s.shows("Loading")
	s.do(first)
	s.shows("jobs (3)", "> job-00")
	serial := s.m.serial
	if s.m.Update(tickMsg{}); s.m.serial != serial+1 {
		t.Errorf("load %d is followed by %d", serial, s.m.serial)
	}
	// What the user asks for meanwhile is loaded at once.
	s.keys("enter")
	s.shows("job job-00 (1)")
}

// From a list of jobs one opens a job, its allocation's logs, and goes back to
// where one was.
func TestWayToLogs(t *testing.T) {
	c := &cluster{jobs: 30}
	s := newScreen(t, c)
	s.shows("region global", "jobs (30)", "> job-00", "job-06", "!job-07")
	s.keys("down", "down", "j")
	s.shows("> job-03")
	s.keys("enter")
	s.shows("jobs › job job-03 (1)", "> a1")
	s.keys("l")
	s.shows("logs (stdout)", "stdout line 99", "!stdout line 90\n")
	s.keys("pgup")
	s.shows("!stdout line 99")
	s.keys("tab")
	s.shows("logs (stderr)", "stderr line")
	s.keys("G")
	s.shows("stderr line 99")
	s.keys("esc", "esc")
	s.shows("jobs (30)", "> job-03")
	s.keys("G")
	s.shows("> job-29", "!job-00")
	s.keys("g")
	s.shows("> job-00")
}

// A filter works while it is typed, and esc ends it.
func TestFilter(t *testing.T) {
	s := newScreen(t, &cluster{jobs: 30})
	s.keys("/", "OB-2")
	s.shows("/OB-2", "jobs (30, 10 shown)", "> job-20", "!job-19")
	s.keys("enter", "enter")
	s.shows("job job-20")
	s.keys("esc", "/", "zzz")
	s.shows("no line has this text")
	s.keys("backspace", "backspace", "backspace", "esc")
	s.shows("jobs (30)")
}

// Lists open by digit and by name; a wrong name says what there is.
func TestViews(t *testing.T) {
	s := newScreen(t, &cluster{jobs: 1})
	s.keys("3")
	s.shows("nodes (0)", "nothing here")
	s.keys(":", "depl", "enter")
	s.shows("deployments (0)")
	s.keys(":", "pods", "enter")
	s.shows("unknown list pods: want jobs, allocs, nodes")
	s.keys("?")
	s.shows("open a list by name")
	s.keys("x")
	s.shows("!open a list by name")
	s.keys("l")
	s.shows("this line has no logs")
	s.keys("p")
	s.shows("[paused]")
}

// An error stays on the screen until a load succeeds, and what was known stays
// too. An answer to an older question is dropped.
func TestErrorsAndLateAnswers(t *testing.T) {
	c := &cluster{jobs: 2}
	s := newScreen(t, c)
	c.fails = errors.New("the agent does not\nanswer")
	s.keys("r")
	s.shows("the agent does not answer", "job-01")
	c.fails = nil
	s.keys("r")
	s.shows("!does not answer")

	late := s.m.load()() // asked first, answered last
	s.keys("enter")
	s.send(late)
	s.shows("job job-00 (1)", "> a1")
}

// Whatever keys are pressed on whatever terminal, the screen fits.
func TestTheScreenFits(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newScreen(t, &cluster{jobs: rapid.IntRange(0, 40).Draw(r, "jobs")})
		keys := []string{"enter", "esc", "down", "up", "tab", "end", "pgup", "l", "/", "a", ":", "1", "3", "?", "p", "g", "G", "backspace", "日"}
		for range rapid.IntRange(0, 30).Draw(r, "n") {
			if rapid.IntRange(0, 5).Draw(r, "resize") == 0 {
				s.send(tea.WindowSizeMsg{Width: rapid.IntRange(1, 100).Draw(r, "w"), Height: rapid.IntRange(1, 40).Draw(r, "h")})
			}
			s.keys(rapid.SampledFrom(keys).Draw(r, "key"))
			lines := strings.Split(s.m.render(), "\n")
			if len(lines) > max(2, s.m.height) {
				r.Fatalf("%d lines on %d", len(lines), s.m.height)
			}
			for _, l := range lines {
				if ansi.StringWidth(l) > s.m.width {
					r.Fatalf("%q is wider than %d", l, s.m.width)
				}
			}
		}
	})
}
