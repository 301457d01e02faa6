package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// page collects the output of a command, so that it is written in one go, and
// only if the command succeeds.
type page struct {
	text strings.Builder
	bold bool // headings are bold, and states have colors
}

// page returns an empty page. Nothing is printed until show.
func (c *call) page() *page { return &page{bold: c.bold} }

// show writes the page.
func (c *call) show(p *page) error {
	_, err := fmt.Fprint(c.Out, p.text.String())
	return err
}

// suggest prints commands that are likely to come next. Only people at a terminal
// see them: what scripts read stays the same.
func (c *call) suggest(commands ...string) {
	if !c.bold {
		return
	}
	for _, s := range commands {
		fmt.Fprintf(c.Err, "Next: %s %s\n", c.Name, clean(s))
	}
}

// heading begins a section.
func (p *page) heading(s string) {
	p.gap()
	s = clean(s)
	if p.bold {
		s = "\x1b[1m" + s + "\x1b[0m"
	}
	p.text.WriteString(s + "\n")
}

// gap adds an empty line, except at the top.
func (p *page) gap() {
	if p.text.Len() > 0 {
		p.text.WriteString("\n")
	}
}

// linef adds one line.
func (p *page) linef(format string, args ...any) {
	p.text.WriteString(clean(fmt.Sprintf(format, args...)) + "\n")
}

// table adds rows in columns; the first row has the names of the columns.
func (p *page) table(rows [][]string) {
	if !p.bold || len(rows) == 0 {
		p.text.WriteString(align(rows) + "\n")
		return
	}
	states := map[int]bool{} // columns
	for i, name := range rows[0] {
		states[i] = stateNames[name]
	}
	p.text.WriteString(alignWith("  ", rows, func(column int, text string) string {
		if !states[column] {
			return text
		}
		return colored(text)
	}) + "\n")
}

// pairs adds lines of name and value, with aligned values.
func (p *page) pairs(kv ...string) {
	width := 0
	for i := 0; i < len(kv); i += 2 {
		width = max(width, utf8.RuneCountInString(kv[i]))
	}
	for i := 0; i+1 < len(kv); i += 2 {
		value := cell(kv[i+1])
		if p.bold && stateNames[kv[i]] {
			value = colored(value)
		}
		p.text.WriteString(strings.TrimRight(pad(kv[i], width)+" = "+value, " ") + "\n")
	}
}

// align sets rows in columns, two spaces apart.
func align(rows [][]string) string { return alignWith("  ", rows, nil) }

// alignWith is align with another gap between columns. Widths are counted in
// characters, and lines do not end in spaces. dress, if not nil, returns the text
// of a cell with color, for every row but the first.
func alignWith(between string, rows [][]string, dress func(column int, text string) string) string {
	var widths []int
	for _, row := range rows {
		for i, s := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(s)))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for k, s := range row {
			if k > 0 {
				b.WriteString(between)
			}
			text := cell(s)
			fill := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(text))
			if i > 0 && dress != nil {
				text = dress(k, text)
			}
			b.WriteString(text + fill)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return strings.Join(lines, "\n")
}

// stateNames are the columns and names whose values are states.
var stateNames = map[string]bool{
	"Status": true, "Client Status": true, "Desired Status": true, "Eligibility": true, "Health": true, "Healthy": true, "State": true, "Connectivity": true,
}

// stateColors are the colors of states: green where all is well, yellow for what
// waits or is on its way, red for what a person may have to look at.
var stateColors = map[string]string{
	"running": green, "ready": green, "successful": green, "complete": green, "alive": green, "healthy": green, "success": green, "eligible": green,
	"connected": green, "submitted": green, "passing": green,
	"pending": yellow, "blocked": yellow, "paused": yellow, "starting": yellow, "initializing": yellow, "unknown": yellow, "disconnected": yellow,
	"ineligible": yellow, "draining": yellow, "deleting": yellow, "leaving": yellow, "unblocking": yellow,
	"failed": red, "lost": red, "down": red, "unhealthy": red, "failure": red, "critical": red, "cancelled": red,
}

// The colors of terminals.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	normal = "\x1b[0m"
)

// colored returns a state in its color. A state with words behind it, such as
// "dead (stopped)", has the color of its first word.
func colored(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if c := stateColors[word]; c != "" {
		return c + s + normal
	}
	return s
}

// pad fills s with spaces up to width characters. A longer s stays whole.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// cell is text on one line.
func cell(s string) string {
	return clean(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " "))
}

// clean removes control characters. Names and messages come from jobs and
// tasks, which must not control the reader's terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)) {
			return '\uFFFD'
		}
		return r
	}, s)
}
