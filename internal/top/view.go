package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// The escape sequences of the view.
const (
	bold    = "\x1b[1m"
	faint   = "\x1b[2m"
	reverse = "\x1b[7m"
	red     = "\x1b[31m"
	normal  = "\x1b[0m"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	return v
}

// lines is how many lines the list or the text has on the screen.
func (m *model) lines() int {
	used := len(m.page.Head) + 3 // title, a line for notes, the keys
	if len(m.page.Columns) > 0 {
		used++
	}
	return max(1, m.height-used)
}

// render returns the screen, never higher or wider than the terminal.
func (m *model) render() string {
	var out []string
	out = append(out, m.page.Head...)
	out = append(out, m.styled(bold, m.title()))
	switch {
	case m.help:
		for _, k := range keyHelp {
			out = append(out, "  "+fit(k[0], 18)+k[1])
		}
	case !m.loaded && m.err == nil:
		out = append(out, "Loading …")
	case len(m.page.Columns) > 0:
		out = append(out, m.list()...)
	default:
		text, l := m.text(), m.here()
		for i := l.offset; i < len(text) && i < l.offset+m.lines(); i++ {
			out = append(out, text[i])
		}
		if len(text) == 0 {
			out = append(out, m.page.Empty)
		}
	}
	// The last two lines are for notes and keys.
	room := max(0, m.height-2)
	if len(out) > room {
		out = out[:room]
	}
	for len(out) < room {
		out = append(out, "")
	}
	out = append(out, m.noteLine(), m.styled(faint, "? keys   / filter   enter open   l logs   esc back   q quit"))
	for i := range out {
		out[i] = ansi.Truncate(out[i], m.width, "")
	}
	return strings.Join(out, "\n")
}

// styled puts a text into a style, unless there are no colors.
func (m *model) styled(style, text string) string {
	if !m.options.Color {
		return text
	}
	return style + text + normal
}

// title says where the user is.
func (m *model) title() string {
	var parts []string
	for _, l := range m.stack {
		name := l.at.Kind
		if l.at.Label != "" {
			name += " " + l.at.Label
		}
		if l.at.Stream != "" {
			name += " (" + l.at.Stream + ")"
		}
		parts = append(parts, name)
	}
	s := strings.Join(parts, " › ")
	if n := len(m.page.Rows); len(m.page.Columns) > 0 {
		s += fmt.Sprintf(" (%d)", n)
		if m.filter != "" {
			s = strings.TrimSuffix(s, ")") + fmt.Sprintf(", %d shown)", len(m.shown()))
		}
	}
	if m.paused {
		s += "  [paused]"
	}
	return s
}

// noteLine is the line of the input, the error or the last note.
func (m *model) noteLine() string {
	switch {
	case m.mode == filtering:
		return "/" + m.input + "█"
	case m.mode == naming:
		return ":" + m.input + "█"
	case m.err != nil:
		return m.styled(red, m.problem)
	case m.note != "":
		return m.note
	case m.filter != "":
		return "filter: " + m.filter
	}
	return ""
}

// list returns the lines of a list, with the names of its columns.
func (m *model) list() []string {
	rows := m.shown()
	widths := make([]int, len(m.page.Columns))
	for i, c := range m.page.Columns {
		widths[i] = ansi.StringWidth(c)
	}
	for _, r := range rows {
		for i, c := range r.Cells {
			if i < len(widths) {
				widths[i] = max(widths[i], ansi.StringWidth(c))
			}
		}
	}
	head := "  "
	for i, c := range m.page.Columns {
		head += fit(c, widths[i]+2)
	}
	out := []string{m.styled(bold, strings.TrimRight(head, " "))}
	if len(rows) == 0 {
		empty := m.page.Empty
		if m.filter != "" {
			empty = "no line has this text"
		}
		return append(out, "  "+empty)
	}
	l := m.here()
	for i := l.offset; i < len(rows) && i < l.offset+m.lines(); i++ {
		out = append(out, m.row(&rows[i], widths, i == l.cursor))
	}
	return out
}

// row returns one line of a list.
func (m *model) row(r *Row, widths []int, selected bool) string {
	mark := "  "
	if selected {
		mark = "> "
	}
	line := mark
	for i, c := range r.Cells {
		if i >= len(widths) {
			break
		}
		text := fit(c, widths[i]+2)
		if i == m.page.State && m.options.Color && !selected {
			word, _, _ := strings.Cut(c, " ")
			if color := m.options.Colors[word]; color != "" {
				text = color + text + normal
			}
		}
		line += text
	}
	if selected && m.options.Color {
		return reverse + ansi.Truncate(line, m.width, "") + normal
	}
	return line
}

// fit fills a text with spaces up to a width in columns.
func fit(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}
