package top

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// keyHelp describes the keys, in the order in which help shows them.
var keyHelp = [][2]string{
	{"↑ ↓ k j", "move"}, {"pgup pgdn g G", "move by pages, to the top, to the end"}, {"enter →", "open what is selected"}, {"esc ← backspace", "go back"},
	{"l", "logs of the selected allocation"}, {"tab", "in logs: switch between stdout and stderr"}, {"1 … 6", "jobs, allocs, nodes, deployments, evals, services"},
	{": name", "open a list by name"}, {"/ text", "show only lines with this text"}, {"r", "reload now"}, {"p", "pause, or go on"}, {"?", "this help"}, {"q ctrl+c", "quit"},
}

// key does what a key says.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	if k.String() == "ctrl+c" {
		return tea.Quit
	}
	if m.mode != moving {
		return m.edit(k)
	}
	m.note = ""
	if m.help {
		m.help = false
		return nil
	}
	switch s := k.String(); s {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup", "ctrl+b":
		m.move(-m.lines())
	case "pgdown", "ctrl+f", "space":
		m.move(m.lines())
	case "home", "g":
		m.move(-1 << 30)
	case "end", "G":
		m.move(1 << 30)
	case "enter", "right":
		if r, ok := m.selected(); ok {
			return m.open(r.Open)
		}
	case "l":
		if r, ok := m.selected(); ok && r.Logs.Kind != "" {
			return m.open(r.Logs)
		}
		m.note = "this line has no logs"
	case "esc", "left", "backspace":
		return m.back()
	case "tab":
		return m.switchStream()
	case "/":
		m.mode, m.input = filtering, m.filter
	case ":":
		m.mode, m.input = naming, ""
	case "r":
		return m.load()
	case "p":
		m.paused = !m.paused
	case "?":
		m.help = true
	default:
		if len(s) == 1 && s[0] >= '1' && int(s[0]-'1') < len(Views) {
			return m.view(Views[s[0]-'1'])
		}
		m.note = "unknown key; ? shows the keys"
	}
	return nil
}

// switchStream shows the other output of a task.
func (m *model) switchStream() tea.Cmd {
	at := &m.here().at
	if at.Kind != "logs" {
		return nil
	}
	if at.Stream == "stderr" {
		at.Stream = "stdout"
	} else {
		at.Stream = "stderr"
	}
	return m.fresh()
}

// edit handles a key while text is typed.
func (m *model) edit(k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "enter":
		return m.typedAll()
	case "esc":
		if m.mode == filtering {
			m.filter = ""
		}
		m.mode, m.input = moving, ""
		m.settle()
	case "backspace":
		if r := []rune(m.input); len(r) > 0 {
			m.input = string(r[:len(r)-1])
		}
		m.typed("")
	default:
		m.typed(k.Text)
	}
	return nil
}

// typed adds text to the input. A filter works while it is typed.
func (m *model) typed(text string) {
	m.input += strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, text)
	if m.mode == filtering {
		m.filter = m.input
		m.settle()
	}
}

// typedAll ends the input.
func (m *model) typedAll() tea.Cmd {
	was, text := m.mode, strings.ToLower(strings.TrimSpace(m.input))
	m.mode, m.input = moving, ""
	if was == filtering || text == "" {
		return nil
	}
	if text == "q" || text == "quit" {
		return tea.Quit
	}
	for _, v := range Views {
		if strings.HasPrefix(v, text) {
			return m.view(v)
		}
	}
	m.note = "unknown list " + text + ": want " + strings.Join(Views, ", ")
	return nil
}

// shown returns the rows that pass the filter.
func (m *model) shown() []Row {
	if m.filter == "" {
		return m.page.Rows
	}
	var out []Row
	for _, r := range m.page.Rows {
		if contains(strings.Join(r.Cells, " "), m.filter) {
			out = append(out, r)
		}
	}
	return out
}

// text returns the lines that pass the filter.
func (m *model) text() []string {
	if m.filter == "" {
		return m.page.Text
	}
	var out []string
	for _, l := range m.page.Text {
		if contains(l, m.filter) {
			out = append(out, l)
		}
	}
	return out
}

// contains reports whether a line has a text, in any case.
func contains(line, text string) bool {
	return strings.Contains(strings.ToLower(line), strings.ToLower(text))
}

// selected returns the row under the cursor.
func (m *model) selected() (Row, bool) {
	rows, at := m.shown(), m.here().cursor
	if len(m.page.Columns) == 0 || at < 0 || at >= len(rows) {
		return Row{}, false
	}
	return rows[at], true
}

// move moves the cursor, or in a text the part that is shown.
func (m *model) move(by int) {
	l := m.here()
	if len(m.page.Columns) == 0 {
		l.offset += by
		l.end = false
		most := len(m.text()) - m.lines()
		if l.offset >= most {
			l.offset, l.end = most, l.at.Kind == "logs"
		}
	} else {
		l.cursor += by
	}
	m.settle()
}

// settle keeps cursor and offset within the page.
func (m *model) settle() {
	l, n := m.here(), m.lines()
	if !m.loaded {
		return
	}
	if len(m.page.Columns) == 0 {
		most := max(0, len(m.text())-n)
		if l.end {
			l.offset = most
		}
		l.offset = max(0, min(l.offset, most))
		return
	}
	rows := len(m.shown())
	l.cursor = max(0, min(l.cursor, rows-1))
	if l.cursor < l.offset {
		l.offset = l.cursor
	}
	if l.cursor >= l.offset+n {
		l.offset = l.cursor - n + 1
	}
	l.offset = max(0, min(l.offset, rows-n))
}
