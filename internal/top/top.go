// Package top is a live view of a cluster in a terminal: lists that one moves
// through and opens, and text such as logs. It knows how pages are shown and
// which keys do what. What is on a page comes from a Source.
package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Place names a page.
type Place struct {
	Kind      string // one of the Views, or a kind that rows lead to
	Namespace string
	ID        string
	Label     string // what the title calls it
	Stream    string // of logs: stdout or stderr
}

// Row is one line of a list.
type Row struct {
	Cells []string
	Open  Place // where enter leads; its Kind is "" if nowhere
	Logs  Place // where l leads; likewise
}

// Page is what is shown of a place: a list, or text if Columns is empty.
type Page struct {
	Head    []string // lines above everything: the state of the cluster
	Columns []string
	State   int // the column that has a state, from 0; -1: none has
	Rows    []Row
	Text    []string
	Empty   string // shown for a list without rows
}

// Source loads pages. Cells and lines have no control characters.
type Source interface {
	Load(ctx context.Context, at Place) (Page, error)
}

// Views are the lists that a digit or a name opens.
var Views = []string{"jobs", "allocs", "nodes", "deployments", "evals", "services"}

// Options are how the view looks and works.
type Options struct {
	Title  string
	Color  bool
	Every  time.Duration     // between two loads of a page
	Colors map[string]string // escape sequences by state
}

// Run shows the view until the user quits or ctx ends.
func Run(ctx context.Context, s Source, o Options, more ...tea.ProgramOption) error {
	m := newModel(ctx, s, o)
	_, err := tea.NewProgram(m, append(more, tea.WithContext(ctx))...).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// level is a place that the user opened, and where the cursor is in it.
type level struct {
	at     Place
	cursor int
	offset int  // first row or line that is shown
	end    bool // follow the end of a text
}

// mode is what keys do.
type mode int

const (
	moving    mode = iota
	filtering      // keys go into the filter
	naming         // keys go into the name of a view
)

// model is the state of the screen.
type model struct {
	ctx     context.Context
	source  Source
	options Options

	width, height int
	stack         []level // the last one is shown
	page          Page
	loaded        bool   // page belongs to the shown place
	serial        int    // of the newest load; answers to older ones are dropped
	loading       bool   // that load is not answered yet
	err           error  // of the last load
	problem       string // the same on one line
	mode          mode
	input         string // in the modes filtering and naming
	filter        string
	help          bool
	paused        bool
	note          string // one line about the last key
}

// newModel returns a screen that shows the first view.
func newModel(ctx context.Context, s Source, o Options) *model {
	return &model{ctx: ctx, source: s, options: o, width: 80, height: 24, stack: []level{{at: Place{Kind: Views[0]}}}}
}

// The messages of the view.
type (
	loadedMsg struct {
		serial int
		page   Page
		err    error
	}
	tickMsg struct{}
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.load(), m.tick()) }

// load loads the shown place.
func (m *model) load() tea.Cmd {
	m.serial++
	m.loading = true
	serial, at := m.serial, m.here().at
	return func() tea.Msg {
		page, err := m.source.Load(m.ctx, at)
		return loadedMsg{serial, page, err}
	}
}

// tick reloads the page now and then.
func (m *model) tick() tea.Cmd {
	return tea.Tick(m.options.Every, func(time.Time) tea.Msg { return tickMsg{} })
}

// here is the shown level.
func (m *model) here() *level { return &m.stack[len(m.stack)-1] }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.settle()
	case loadedMsg:
		if msg.serial != m.serial {
			return m, nil
		}
		m.loading = false
		m.err = msg.err
		m.problem = strings.ReplaceAll(fmt.Sprintf("%v", msg.err), "\n", " ")
		if msg.err == nil {
			m.page, m.loaded = msg.page, true
			m.settle()
		}
	case tickMsg:
		if m.paused || m.loading { // a page may take longer than the interval
			return m, m.tick()
		}
		return m, tea.Batch(m.load(), m.tick())
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if m.mode != moving {
			m.typed(msg.Content)
		}
	}
	return m, nil
}

// open shows a place on top of the present one.
func (m *model) open(at Place) tea.Cmd {
	if at.Kind == "" {
		return nil
	}
	m.stack = append(m.stack, level{at: at, end: at.Kind == "logs"})
	return m.fresh()
}

// fresh shows a place that is not loaded yet.
func (m *model) fresh() tea.Cmd {
	m.page, m.loaded, m.err, m.filter, m.note = Page{Head: m.page.Head}, false, nil, "", ""
	return m.load()
}

// back returns to the place below.
func (m *model) back() tea.Cmd {
	if m.filter != "" {
		m.filter = ""
		m.settle()
		return nil
	}
	if len(m.stack) == 1 {
		return nil
	}
	m.stack = m.stack[:len(m.stack)-1]
	return m.fresh()
}

// view opens one of the Views in place of everything.
func (m *model) view(name string) tea.Cmd {
	m.stack = []level{{at: Place{Kind: name}}}
	return m.fresh()
}
