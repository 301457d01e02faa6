package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// report is the result of a run.
type report struct {
	Began  time.Time
	Seed   uint64
	Rounds int // of each fault
	Passed bool
	Faults []*summary
	Failed []*result // with their timelines
}

// summary is the result of all rounds of one fault.
type summary struct {
	ID, Kind, Name, Says string
	Rounds, Passed       int
	Figures              map[string]figure
	Exceeded             []string // limits
	Results              []*result
}

// figure is a figure over all rounds.
type figure struct{ P50, P99, Max float64 }

// result is the result of one round.
type result struct {
	Fault, Name string
	Round       int
	Seed        uint64
	Began       time.Time
	Took        float64 // s
	Failures    []string
	Calls       map[string]int     // by kind and outcome
	Figures     map[string]float64 // seconds, unless the name says otherwise
	Timeline    []note             `json:",omitempty"` // of a round that failed
	Strip       []mark             `json:",omitempty"`
}

// mark is a call in the picture of a failed round.
type mark struct {
	Lane        string
	Left, Width float64 // in percent of the round
	Outcome     outcome
	Title       string
}

// newReport returns a report that passes until a result fails.
func newReport(o *options) *report {
	return &report{Began: time.Now(), Seed: o.seed, Rounds: o.rounds, Passed: true}
}

// fail adds a failure.
func (r *result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// check adds a failure if err is not nil. format has one verb, for err.
func (r *result) check(format string, err error) {
	if err != nil {
		r.Failures = append(r.Failures, fmt.Errorf(format, err).Error())
	}
}

// finish copies the figures of a round, and its timeline if it failed.
func (r *result) finish(x *round) {
	r.Took = time.Since(r.Began).Seconds()
	r.Figures = x.figures
	r.Calls = map[string]int{}
	for _, c := range x.history.calls {
		r.Calls[string(c.Kind)+" "+string(c.Outcome)]++
	}
	// Latencies are in seconds.
	for name, of := range map[string]func(*call) bool{"write": (*call).writes, "read": func(c *call) bool { return c.Kind == read }} {
		l := x.history.latencies(of)
		r.Figures[name+" p50"] = percentile(l, 50).Seconds()
		r.Figures[name+" p99"] = percentile(l, 99).Seconds()
	}
	if len(r.Failures) == 0 {
		return
	}
	// Only failed rounds need a timeline; it is large.
	r.Timeline = slices.Clone(x.history.notes)
	end := x.history.now()
	for _, c := range x.history.calls {
		if !c.writes() && c.Outcome == done {
			continue
		}
		r.Strip = append(r.Strip, mark{
			Lane: c.Server, Left: 1000 * float64(c.Call) / float64(end), Width: max(0.1, 100*float64(c.Return-c.Call)/float64(end)), Outcome: c.Outcome,
			Title: fmt.Sprintf("%s %s %s at %v: %s %s", c.Kind, c.Key, c.Value, c.Call.Round(time.Millisecond), c.Outcome, c.Error),
		})
	}
}

// String returns the result with its figures on one line, and one line for each
// failure.
func (r *result) String() string {
	verdict := "passed"
	if len(r.Failures) > 0 {
		verdict = "FAILED\n  " + strings.Join(r.Failures, "\n  ")
	}
	var figures []string
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		figures = append(figures, fmt.Sprintf("%s %.3g", name, r.Figures[name]))
	}
	return fmt.Sprintf("%s round %d, %.1f s (%s): %s", r.Fault, r.Round, r.Took, strings.Join(figures, ", "), verdict)
}

// add adds the result of a round.
func (rep *report) add(r *result) {
	i := slices.IndexFunc(rep.Faults, func(s *summary) bool { return s.ID == r.Fault })
	// The first round of its fault.
	if i < 0 {
		i = len(rep.Faults)
		s := &summary{ID: r.Fault}
		for _, f := range faults {
			if f.ID == r.Fault {
				s.Kind, s.Name, s.Says = f.Kind, f.Name, f.Says
			}
		}
		rep.Faults = append(rep.Faults, s)
	}
	s := rep.Faults[i]
	s.Results = append(s.Results, r)
	s.Rounds++
	if len(r.Failures) == 0 {
		s.Passed++
	} else {
		rep.Passed = false
		rep.Failed = append(rep.Failed, r)
	}
	s.sum()
	// Limits are judged after the last round, over all of them.
	if len(s.Exceeded) > 0 && s.Rounds == rep.Rounds {
		rep.Passed = false
	}
}

// sum computes the figures over all rounds and lists those that exceed their
// limits.
func (s *summary) sum() {
	all := map[string][]float64{}
	for _, r := range s.Results {
		for name, v := range r.Figures {
			all[name] = append(all[name], v)
		}
	}
	s.Figures, s.Exceeded = map[string]figure{}, nil
	for name, list := range all {
		slices.Sort(list)
		s.Figures[name] = figure{percentile(list, 50), percentile(list, 99), list[len(list)-1]}
	}
	for _, f := range faults {
		if f.ID != s.ID {
			continue
		}
		for _, l := range f.Limits {
			is := s.Figures[l.Figure]
			if l.P50 > 0 && is.P50 > l.P50 && s.Rounds > 2 { // one round has no percentiles
				s.Exceeded = append(s.Exceeded, fmt.Sprintf("%s: p50 %.2f s, the limit is %g s", l.Figure, is.P50, l.P50))
			}
			if l.P99 > 0 && is.P99 > l.P99 {
				s.Exceeded = append(s.Exceeded, fmt.Sprintf("%s: p99 %.2f s, the limit is %g s", l.Figure, is.P99, l.P99))
			}
		}
	}
}

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"s":  func(v float64) string { return fmt.Sprintf("%.3g", v) },
	"ms": func(d time.Duration) string { return d.Round(time.Millisecond).String() },
	"lanes": func(marks []mark) map[string][]mark {
		out := map[string][]mark{}
		for _, m := range marks {
			out[m.Lane] = append(out[m.Lane], m)
		}
		return out
	},
}).Parse(page))

// write writes report.json and report.html.
func (rep *report) write(dir string) error {
	text, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, "report.html"))
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o644), pageTemplate.Execute(f, rep), f.Close())
}
