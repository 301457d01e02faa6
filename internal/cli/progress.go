package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// progress prints permanent lines and, on a terminal, a status line below them
// and more lines below that, which it overwrites.
type progress struct {
	out      io.Writer
	terminal bool
	width    int             // of the terminal in columns; 0 if unknown
	status   func() string   // the status line; nil: no such line
	below    func() []string // the lines below it; nil: no such lines
	drawn    int             // lines on the screen that are overwritten
	turn     int             // position of the spinner
}

// redrawTime is how often the status line is drawn while something runs.
const redrawTime = 200 * time.Millisecond

// spinner holds the characters that turn at the beginning of the status line.
var spinner = []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")

// line prints a permanent line.
func (p *progress) line(s string) {
	p.erase()
	fmt.Fprintln(p.out, s)
	p.draw()
}

// erase removes the lines that are overwritten. Call it before anything else
// writes to the terminal.
func (p *progress) erase() {
	io.WriteString(p.out, p.erasing())
	p.drawn = 0
}

// erasing is what removes the lines: the cursor stands at the end of the last.
func (p *progress) erasing() string {
	if p.drawn == 0 {
		return ""
	}
	return "\r\x1b[K" + strings.Repeat("\x1b[1A\x1b[K", p.drawn-1)
}

// draw writes the status line and what is below it, cut to the width of the
// terminal. Without a terminal it does nothing, so that logs stay readable.
func (p *progress) draw() {
	if !p.terminal || p.status == nil {
		return
	}
	lines := []string{fmt.Sprintf("  %c %s", spinner[p.turn%len(spinner)], strings.ReplaceAll(clean(p.status()), "\n", " "))}
	if p.below != nil {
		for _, l := range p.below() {
			lines = append(lines, "    "+l)
		}
	}
	if p.width > 0 { // a line that wraps could not be overwritten
		for i, l := range lines {
			lines[i] = ansi.Truncate(l, p.width-1, "")
		}
	}
	io.WriteString(p.out, p.erasing()+strings.Join(lines, "\r\n"))
	p.drawn = len(lines)
}

// wait runs f and refreshes the status line meanwhile. It returns when f does.
func (p *progress) wait(ctx context.Context, f func(context.Context) error) error {
	if !p.terminal {
		return f(ctx)
	}
	// With room for one, so that the goroutine ends even if nobody receives.
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	tick := time.NewTicker(redrawTime)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			p.turn++
			p.draw()
		}
	}
}
