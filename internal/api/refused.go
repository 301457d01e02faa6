package api

import (
	"io"
	"net/http"
	"strings"
)

// refusal is a path of Nomad's HTTP API that Berth does not serve, with the
// answer that names it.
type refusal struct {
	path   string // as those of operations; a part in braces is any text
	status int
	text   string
}

// Enterprise is the answer of Nomad's community edition to calls of its other
// edition. Clients compare it.
const Enterprise = "Nomad Enterprise only endpoint"

// refusals are looked at after the operations, so one that becomes an operation is
// served.
var refusals = []refusal{
	{"v1/sentinel/policies", http.StatusNotImplemented, Enterprise},
	{"v1/sentinel/policy/{Name}", http.StatusNotImplemented, Enterprise},
	{"v1/recommendations", http.StatusNotImplemented, Enterprise},
	{"v1/recommendations/apply", http.StatusNotImplemented, Enterprise},
	{"v1/recommendation", http.StatusNotImplemented, Enterprise},
	{"v1/recommendation/{ID}", http.StatusNotImplemented, Enterprise},
	{"v1/operator/utilization", http.StatusNotImplemented, Enterprise},
	{"v1/operator/license", http.StatusNotImplemented, Enterprise},

	{"v1/client/allocation/{ID}/snapshot", http.StatusNotImplemented, "disks of allocations move between nodes by another call of agents"},
}

// refusedByName answers a request for a path that Nomad has and Berth does not, and
// reports whether it is one.
func refusedByName(w http.ResponseWriter, r *http.Request) bool {
	segments := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i := range refusals {
		x := &refusals[i]
		if !samePath(strings.Split(x.path, "/"), segments) {
			continue
		}
		if x.path == "v1/operator/license" && r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent) // no license is needed; clients expect this
			return true
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(x.status)
		io.WriteString(w, x.text)
		return true
	}
	return false
}

// samePath reports whether a path is that of a refusal.
func samePath(parts, segments []string) bool {
	if len(parts) != len(segments) {
		return false
	}
	for i, part := range parts {
		if part != segments[i] && (!named(part) || segments[i] == "") {
			return false
		}
	}
	return true
}
