package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// progress prints permanent lines and, on a terminal, a status line below them
// that it overwrites.
type progress struct {
	out      io.Writer
	terminal bool
	width    int           // of the terminal in columns; 0 if unknown
	status   func() string // the status line; nil is none
	drawn    bool          // the status line is on the screen
	turn     int           // position of the spinner
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

// erase removes the status line. Call it before anything else writes to the
// terminal.
func (p *progress) erase() {
	if p.drawn {
		io.WriteString(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// draw writes the status line, cut to the width of the terminal. Without a
// terminal it does nothing, so that logs stay readable.
func (p *progress) draw() {
	if !p.terminal || p.status == nil {
		return
	}
	p.erase()
	text := fmt.Sprintf("  %c %s", spinner[p.turn%len(spinner)], clean(p.status()))
	if w := p.width; w > 0 && utf8.RuneCountInString(text) >= w { // a line that wraps could not be overwritten
		text = string([]rune(text)[:w-1])
	}
	io.WriteString(p.out, strings.ReplaceAll(text, "\n", " "))
	p.drawn = true
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
