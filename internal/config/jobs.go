package config

import (
	"strings"
	"time"

	"berth"
)

// Search configures the fuzzy search.
type Search struct {
	Fuzzy         bool
	LimitQuery    int // objects of one kind that match
	LimitResults  int // matches of one kind
	MinTermLength int // characters of the text
}

// PlanRejection says which nodes are reported, and taken out if Enabled, because
// they refuse placements: those that refused NodeThreshold in NodeWindow.
type PlanRejection struct {
	Enabled       bool
	NodeThreshold int
	NodeWindow    time.Duration
}

// JobLimits are what this server takes of the jobs that it is asked to register.
type JobLimits struct {
	DefaultPriority int // of a job that has none
	MaxPriority     int // of jobs and of their evaluations
	MaxCount        int // of all groups of a job together
	MaxSource       int // bytes of a source that is kept with its job; 0: none is kept
}

// mostRejections bounds what a leader remembers of each node that refuses
// placements.
const mostRejections = 10_000

// jobLimits checks the limits of searches, jobs and refused placements.
func (d *decoder) jobLimits() {
	j, s := &d.to.Server.Jobs, &d.to.Server.Search
	most := j.MaxPriority
	if most < berth.MaxPriority || most > berth.TopPriority {
		d.fail("server.job_max_priority", "must be from %d to %d, got %d", berth.MaxPriority, berth.TopPriority, most)
		most = berth.TopPriority
	}
	if j.DefaultPriority < berth.MinPriority || j.DefaultPriority > most {
		d.fail("server.job_default_priority", "must be from %d to %d, got %d", berth.MinPriority, most, j.DefaultPriority)
	}
	if j.MaxCount < 1 {
		d.fail("server.job_max_count", "must be at least 1, got %d", j.MaxCount)
	}
	if r := d.to.Server.Rejection; r.NodeThreshold < 1 || r.NodeThreshold > mostRejections {
		d.fail("server.plan_rejection_tracker.node_threshold", "must be from 1 to %d, got %d", mostRejections, r.NodeThreshold)
	} else if r.NodeWindow < time.Second {
		d.fail("server.plan_rejection_tracker.node_window", "must be at least 1s, got %s", r.NodeWindow)
	}
	for _, x := range []struct {
		key string
		n   int
	}{{"limit_query", s.LimitQuery}, {"limit_results", s.LimitResults}, {"min_term_length", s.MinTermLength}} {
		if x.n < 1 || x.n > 10_000 {
			d.fail("server.search."+x.key, "must be from 1 to 10000, got %d", x.n)
		}
	}
}

// mostSource is the limit of what the servers keep of a source.
const mostSource = 1 << 20

// sourceSize reads a size such as 512K or 1M.
func sourceSize(d *decoder, path string, n *node) {
	s, ok := d.line(path, n)
	if !ok {
		return
	}
	size, ok := bytesOf(s)
	if !ok {
		d.addf(n.pos, path, "%.40q is not a size such as 512K or 1M", s)
		return
	}
	if size > mostSource {
		d.addf(n.pos, path, "must be at most 1M, got %.40q", s)
		return
	}
	d.to.Server.Jobs.MaxSource = size
}

// bytesOf returns the bytes that a size stands for: digits, and K, M or G of 1024,
// which B may follow.
func bytesOf(s string) (int, bool) {
	s = strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B")
	unit := 1
	for _, u := range []struct {
		suffix string
		times  int
	}{{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}} {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = rest, u.times
			break
		}
	}
	if s == "" || len(s) > 12 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	size := 0
	for _, c := range s {
		size = size*10 + int(c-'0')
	}
	return size * unit, true
}
