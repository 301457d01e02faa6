package mock

import (
	"time"

	"berth/internal/agent/logs"
	"berth/internal/saferoot"
)

// output prints what a task's script says.
type output struct {
	dir     *saferoot.Root
	streams []*stream
}

// stream is one of the two outputs that a task prints to.
type stream struct {
	printed
	w     *logs.Writer
	begin time.Time
	next  *int64 // how often it was printed
}

// open opens the logs that the script prints to. What was due before an earlier
// agent ended is counted as printed. The caller closes the output and holds
// h.waiting.
func (h *handle) open() (*output, error) {
	out := new(output)
	if h.t.Logs.Disabled {
		return out, nil
	}
	var err error
	if out.dir, err = h.t.AllocDir.Sub(logs.Dir); err != nil {
		return nil, err
	}
	for i, name := range []string{logs.Stdout, logs.Stderr} {
		p := h.s.output[i]
		if p.text == "" {
			continue
		}
		w, err := logs.NewWriter(out.dir, h.t.Name, name, h.t.Logs.MaxFiles, h.t.Logs.MaxSize)
		if err != nil {
			out.close()
			return nil, err
		}
		s := &stream{printed: p, w: w, begin: h.StartedAt, next: &h.printed[i]}
		for s.due() && s.at().Before(h.since) {
			*s.next++
		}
		out.streams = append(out.streams, s)
	}
	return out, nil
}

// due reports whether anything is left to print: the text once, and as often
// again as it is to be repeated.
func (s *stream) due() bool { return *s.next <= s.times }

// at returns when the next print is due.
func (s *stream) at() time.Time { return s.begin.Add(time.Duration(*s.next) * s.every) }

// print prints what is due by now, but nothing after the end, and returns when
// the next is.
func (o *output) print(now, end time.Time) (next time.Time) {
	if now.After(end) {
		now = end
	}
	for _, s := range o.streams {
		for s.due() && !s.at().After(now) {
			_, _ = s.w.Write([]byte(s.text)) // counts what it cannot write
			*s.next++
		}
		if s.due() && (next.IsZero() || s.at().Before(next)) {
			next = s.at()
		}
	}
	return next
}

// close closes the logs. It may be called on an output that was opened in part.
func (o *output) close() {
	for _, s := range o.streams {
		_ = s.w.Close()
	}
	if o.dir != nil {
		_ = o.dir.Close()
	}
}
