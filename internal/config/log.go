package config

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
)

// logName is the name of a log file of which only the folder is configured.
const logName = "berth.log"

// facilities are the facilities of syslog.
var facilities = []string{
	"KERN", "USER", "MAIL", "DAEMON", "AUTH", "SYSLOG", "LPR", "NEWS", "UUCP", "CRON", "AUTHPRIV", "FTP",
	"LOCAL0", "LOCAL1", "LOCAL2", "LOCAL3", "LOCAL4", "LOCAL5", "LOCAL6", "LOCAL7",
}

// log checks where the log goes, and the headers of answers.
func (d *decoder) log() {
	l := &d.to.Log
	if l.File != "" {
		if info, err := os.Stat(l.File); strings.HasSuffix(l.File, "/") || err == nil && info.IsDir() {
			l.File = filepath.Join(l.File, logName)
		}
		path, err := filepath.Abs(l.File)
		if err != nil {
			d.fail("log_file", "%v", err)
		}
		l.File = path
	}
	if l.RotateBytes < 0 {
		d.fail("log_rotate_bytes", "must be at least 0, got %d", l.RotateBytes)
	}
	if l.RotateDuration < 0 {
		d.fail("log_rotate_duration", "must not be negative, got %s", l.RotateDuration)
	}
	if l.RotateFiles < -1 {
		d.fail("log_rotate_max_files", "must be at least -1, got %d", l.RotateFiles)
	}
	if l.Facility = strings.ToUpper(l.Facility); !slices.Contains(facilities, l.Facility) {
		d.fail("syslog_facility", "unknown facility %.40q: want one of %s", l.Facility, strings.Join(facilities, ", "))
	}
	for name, value := range d.to.ResponseHeaders {
		at := "http_api_response_headers." + berth.Clip(name, 64)
		switch {
		case !headerName(name):
			d.fail(at, "is not the name of a header")
		case strings.ContainsAny(value, "\r\n\x00"):
			d.fail(at, "must be one line")
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
			d.fail(at, "is set by the agent itself")
		}
	}
}

// ownHeaders are headers that frame answers.
var ownHeaders = []string{"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Transfer-Encoding"}

// headerName reports whether a text can be the name of a header.
func headerName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// jobLimits checks the limits of searches and jobs.
func (d *decoder) jobLimits() {
	j, s := &d.to.Server.Jobs, &d.to.Server.Search
	if j.DefaultPriority < berth.MinPriority || j.DefaultPriority > berth.MaxPriority {
		d.fail("server.job_default_priority", "must be from %d to %d, got %d", berth.MinPriority, berth.MaxPriority, j.DefaultPriority)
	}
	if j.MaxCount < 1 {
		d.fail("server.job_max_count", "must be at least 1, got %d", j.MaxCount)
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

// eventBroker reads enable_event_broker.
func eventBroker(d *decoder, path string, n *node) {
	if on, ok := d.flag(path, n); ok {
		d.to.Server.NoEvents = !on
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
