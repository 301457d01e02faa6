package admit

import (
	"slices"
	"strings"

	"berth"
)

// check checks one check of a service. Its fields are already complete: what it
// takes over from its service is filled in, and a problem that it takes over is
// reported there alone. A check for Consul has other types and fields.
func (c *checker) check(at string, g *berth.TaskGroup, t *berth.Task, s *berth.Service, k *berth.ServiceCheck) {
	switch k.Type {
	case berth.CheckHTTP:
		c.httpCheck(at, k)
	case berth.CheckTCP: // it only connects; as in Nomad, the fields of a request have no effect
	case berth.CheckGRPC:
		c.grpcCheck(at, k)
	case berth.CheckScript:
		c.scriptCheck(at, g, k)
	default:
		if !native(s) {
			return
		}
		c.checkType(at+".type", k.Type)
	}
	if native(s) {
		c.consulOnlyCheck(at, k)
		c.foreignFields(at, k)
	}
	c.line(at+".name", k.Name, 4*berth.MaxNameLen)
	// The agent runs the check, so the address must be one that it can
	// reach.
	if k.AddressMode != "" {
		c.addressMode(at+".address_mode", g, k.AddressMode)
	}
	switch {
	case k.Type == berth.CheckScript: // it connects to nothing
	case k.PortLabel == "":
		c.addf(at+".port", "is missing: the check or its service must name a port")
	case k.PortLabel == "0":
		c.addf(at+".port", "must be a port that the check can reach, got 0")
	case k.PortLabel != s.PortLabel:
		c.port(at+".port", g, k.TaskName, k.PortLabel, 1)
	}
	if k.TaskName != s.TaskName {
		c.ofTask(at+".task", g, t, k.TaskName)
	}
	c.duration(at+".interval", k.Interval, minCheckPeriod)
	c.duration(at+".timeout", k.Timeout, minCheckPeriod)
	c.between(at+".success_before_passing", int64(k.SuccessBeforePassing), 0, maxThreshold)
	c.between(at+".failures_before_critical", int64(k.FailuresBeforeCritical), 0, maxThreshold)
	if k.OnUpdate != s.OnUpdate {
		c.oneOf(at+".on_update", k.OnUpdate, onUpdates...)
	}
	if k.CheckRestart != nil {
		c.checkRestart(at+".check_restart", k.CheckRestart)
	}
}

// checkTypes are the types of checks.
var checkTypes = []string{berth.CheckHTTP, berth.CheckTCP, berth.CheckGRPC, berth.CheckScript}

// checkType notes that a type of check does not exist.
func (c *checker) checkType(at, name string) {
	switch name {
	case "":
		c.addf(at, "is missing: want %s", orList(checkTypes))
	default:
		c.addf(at, "unknown type %q for provider = %q: want %s", berth.Clip(name, 64), berth.ServiceNomad, orList(checkTypes))
	}
}

// consulOnlyCheck refuses fields that only checks in Consul have.
func (c *checker) consulOnlyCheck(at string, k *berth.ServiceCheck) {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"advertise", k.Advertise != ""}, {"expose", k.Expose}, {"failures_before_warning", k.FailuresBeforeWarning != 0},
		{"initial_status", k.InitialStatus != ""}, {"notes", k.Notes != ""},
	} {
		if f.present {
			c.addf(at+"."+f.name, "is only for checks in Consul, not with provider = %q", berth.ServiceNomad)
		}
	}
}

// foreignFields refuses fields that only checks of another type have.
func (c *checker) foreignFields(at string, k *berth.ServiceCheck) {
	for _, f := range []struct {
		name, of string
		present  bool
	}{
		{"command", berth.CheckScript, k.Command != ""}, {"args", berth.CheckScript, len(k.Args) > 0},
		{"grpc_service", berth.CheckGRPC, k.GRPCService != ""}, {"grpc_use_tls", berth.CheckGRPC, k.GRPCUseTLS},
	} {
		if f.present && k.Type != f.of {
			c.addf(at+"."+f.name, "is only for checks of type %s, got type %q", f.of, berth.Clip(k.Type, 64))
		}
	}
}

// grpcCheck checks what a gRPC check asks for.
func (c *checker) grpcCheck(at string, k *berth.ServiceCheck) {
	c.line(at+".grpc_service", k.GRPCService, maxGRPCService)
	if !k.GRPCUseTLS && (k.TLSServerName != "" || k.TLSSkipVerify) {
		c.addf(at+".grpc_use_tls", "must be true with tls_server_name or tls_skip_verify, got false")
	}
}

// scriptCheck checks the command of a script check, and that it is clear in
// which task it runs.
func (c *checker) scriptCheck(at string, g *berth.TaskGroup, k *berth.ServiceCheck) {
	if k.Command == "" {
		c.addf(at+".command", "is missing: a check of type script needs a command")
	}
	c.atMost(at+".args", entriesLimit, len(k.Args), "arguments")
	for _, word := range append([]string{k.Command}, k.Args...) {
		if strings.ContainsRune(word, 0) {
			c.addf(at+".command", "must not contain NUL, got %q", berth.Clip(word, 64))
		}
	}
	if k.TaskName == "" && len(g.Tasks) > 1 {
		c.addf(at+".task", "is missing: a script runs in a task, and the group has %d", len(g.Tasks))
	}
}

// httpCheck checks the request of an HTTP check. Line breaks in headers would
// let a job write further headers.
func (c *checker) httpCheck(at string, k *berth.ServiceCheck) {
	c.oneOf(at+".protocol", k.Protocol, "http", "https")
	if !strings.HasPrefix(k.Path, "/") || strings.ContainsFunc(k.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		c.addf(at+".path", "must begin with a slash and have no spaces, got %q", berth.Clip(k.Path, 64))
	}
	if k.Method == "" || strings.ContainsFunc(k.Method, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }) {
		c.addf(at+".method", "must be an HTTP method, got %q", berth.Clip(k.Method, 64))
	}
	if len(k.Body) > maxCheckBody {
		c.addf(at+".body", "must be at most %d bytes, got %d", maxCheckBody, len(k.Body))
	}
	c.atMost(at+".header", headersLimit, len(k.Header), "headers")
	for name, values := range k.Header {
		bad := func(s string) bool { return strings.ContainsAny(s, "\r\n\x00") }
		if name == "" || strings.ContainsAny(name, " :\t\r\n\x00") || slices.ContainsFunc(values, bad) {
			c.addf(at+".header", "%q is not a valid header name, or its value has a line break", berth.Clip(name, 64))
		}
	}
	if k.Protocol != "https" && (k.TLSServerName != "" || k.TLSSkipVerify) {
		c.addf(at+".protocol", "must be https with tls_server_name or tls_skip_verify, got %q", berth.Clip(k.Protocol, 64))
	}
}

// checkRestart checks when a failing check restarts its task. One that names no
// task restarts all tasks of the group.
func (c *checker) checkRestart(at string, r *berth.CheckRestart) {
	c.between(at+".limit", int64(r.Limit), 0, maxThreshold)
	c.duration(at+".grace", r.Grace, 0)
}
