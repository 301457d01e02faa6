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
	given := l.Facility
	if l.Facility = strings.ToUpper(given); !slices.Contains(facilities, l.Facility) {
		d.fail("syslog_facility", "unknown facility %.40q: want one of %s", given, strings.Join(facilities, ", "))
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

// eventBroker reads enable_event_broker.
func eventBroker(d *decoder, path string, n *node) {
	if on, ok := d.flag(path, n); ok {
		d.to.Server.NoEvents = !on
	}
}
