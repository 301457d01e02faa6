package berth

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of services.
const (
	MaxServices       = 100 // of a group, those of its tasks included
	MaxServiceChecks  = 50  // of a service
	MaxServiceNameLen = 63
	MaxServiceTags    = 100
	MaxServiceTagLen  = 255
	maxCheckBody      = 64 << 10
	maxCheckHeaders   = 100
	maxThreshold      = 1_000_000
	minCheckPeriod    = time.Second
	defaultGrace      = time.Second
)

// services completes the services of a group, or of one of its tasks.
func (j *Job) services(g *TaskGroup, t *Task, list []Service) {
	for i := range list {
		s := &list[i]
		if t != nil {
			orDefault(&s.Name, j.Name+"-"+g.Name+"-"+t.Name)
			orDefault(&s.TaskName, t.Name)
		}
		orDefault(&s.Name, j.Name+"-"+g.Name)
		orDefault(&s.AddressMode, AddressAuto)
		orDefault(&s.OnUpdate, OnUpdateRequireHealthy)
		s.Meta, s.CanaryMeta, s.TaggedAddresses = normalMap(s.Meta), normalMap(s.CanaryMeta), normalMap(s.TaggedAddresses)
		for k := range s.Checks {
			c := &s.Checks[k]
			orDefault(&c.OnUpdate, s.OnUpdate)
			orDefault(&c.PortLabel, s.PortLabel)
			orDefault(&c.TaskName, s.TaskName)
			orDefault(&c.Name, fmt.Sprintf("service: %q check", s.Name))
			if c.Type == CheckHTTP {
				orDefault(&c.Protocol, "http")
				orDefault(&c.Method, "GET")
			}
			c.CheckRestart = s.CheckRestart.with(c.CheckRestart)
		}
	}
}

// with returns what a check says of its restarts over what its service says.
func (r *CheckRestart) with(own *CheckRestart) *CheckRestart {
	switch {
	case r == nil:
		return own
	case own == nil:
		return r
	}
	n := *own
	if n.Limit == 0 {
		n.Limit = r.Limit
	}
	if n.Grace == defaultGrace { // most likely not said
		n.Grace = r.Grace
	}
	n.IgnoreWarnings = n.IgnoreWarnings || r.IgnoreWarnings
	return &n
}

// groupServices checks the services of a group and of its tasks.
func (c *checker) groupServices(at string, g *TaskGroup) {
	seen := map[string]bool{}
	n := len(g.Services)
	for i := range g.Services {
		c.service(at, g, nil, &g.Services[i], seen)
	}
	for _, t := range g.Tasks {
		if n += len(t.Services); n > MaxServices {
			break
		}
		for i := range t.Services {
			c.service(fmt.Sprintf("%s.task[%s]", at, clip(t.Name, 64)), g, t, &t.Services[i], seen)
		}
	}
	if n > MaxServices {
		c.addf(at+".service", "%d services are too many for a group; allowed are %d", n, MaxServices)
	}
}

func (c *checker) service(at string, g *TaskGroup, t *Task, s *Service, seen map[string]bool) {
	at = fmt.Sprintf("%s.service[%s]", at, clip(s.Name, 64))
	if !strings.Contains(s.Name, "${") && !ServiceName(s.Name) {
		c.addf(at+".name", "%q is not the name of a service; allowed are 1 to %d letters, digits and hyphens, no hyphen at the ends", clip(s.Name, 64), MaxServiceNameLen)
	}
	id := s.Name + " " + s.PortLabel + " " + s.TaskName
	if seen[id] {
		c.addf(at, "is there twice for the same task with the port %q", clip(s.PortLabel, 64))
	}
	seen[id] = true
	switch s.Provider {
	case ServiceNomad:
	case "":
		c.addf(at+".provider", "is missing, which means consul; this build has no Consul: set provider = %q", ServiceNomad)
	default:
		c.addf(at+".provider", "%q is not built yet; allowed is %q", clip(s.Provider, 64), ServiceNomad)
	}
	c.consulOnly(at, s)
	c.oneOf(at+".on_update", s.OnUpdate, onUpdates...)
	if len(s.Tags) > MaxServiceTags || len(s.CanaryTags) > MaxServiceTags {
		c.addf(at+".tags", "%d are too many; allowed are %d", max(len(s.Tags), len(s.CanaryTags)), MaxServiceTags)
	}
	for _, tag := range slices.Concat(s.Tags, s.CanaryTags) {
		c.line(at+".tags", tag, MaxServiceTagLen)
	}
	c.texts(at+".meta", s.Meta)
	c.texts(at+".canary_meta", s.CanaryMeta)
	c.address(at, s)
	c.port(at+".port", g, s.PortLabel)
	c.ofTask(at+".task", g, t, s.TaskName)
	if len(s.Checks) > MaxServiceChecks {
		c.addf(at+".check", "%d are too many; allowed are %d", len(s.Checks), MaxServiceChecks)
		return
	}
	for i := range s.Checks {
		k := &s.Checks[i]
		c.check(fmt.Sprintf("%s.check[%s]", at, clip(k.Name, 64)), g, t, k)
	}
	if s.CheckRestart != nil && len(s.Checks) == 0 {
		c.checkRestart(at+".check_restart", g, t, s.TaskName, s.CheckRestart)
	}
}

// consulOnly refuses what only a service in Consul can have.
func (c *checker) consulOnly(at string, s *Service) {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"cluster", s.Cluster != "" && s.Cluster != "default"}, {"connect", s.Connect != nil}, {"enable_tag_override", s.EnableTagOverride},
		{"identity", s.Identity != nil}, {"kind", s.Kind != ""}, {"tagged_addresses", len(s.TaggedAddresses) > 0}, {"weights", s.Weights != nil},
	} {
		if f.present {
			c.addf(at+"."+f.name, "is for services in Consul, not for those with provider = %q", ServiceNomad)
		}
	}
}

// address checks where a service says that it is.
func (c *checker) address(at string, s *Service) {
	switch s.AddressMode {
	case AddressAuto:
	case AddressHost:
		if s.Address != "" {
			c.addf(at+".address", "is there beside address_mode = %q; allowed is %q", s.AddressMode, AddressAuto)
		}
	case "alloc", "driver":
		c.addf(at+".address_mode", "%q is not built yet: allocations have no network of their own; allowed are auto and host", s.AddressMode)
	default:
		c.oneOf(at+".address_mode", s.AddressMode, AddressAuto, AddressHost)
	}
	if s.Address == "" || strings.Contains(s.Address, "${") {
		return
	}
	if _, err := netip.ParseAddr(s.Address); err != nil && (len(s.Address) > MaxJobIDLen || strings.ContainsAny(s.Address, " /:\t\n")) {
		c.addf(at+".address", "%q is not an IP address or the name of a host", clip(s.Address, 64))
	}
}

// port checks a port: one of the group's labels, or a number.
func (c *checker) port(at string, g *TaskGroup, label string) {
	if label == "" {
		return
	}
	if n, err := strconv.Atoi(label); err == nil {
		c.between(at, int64(n), 1, MaxPort)
		return
	}
	if !g.hasPort(label) {
		c.addf(at, "the group's networks have no port %q", clip(label, 64))
	}
}

func (g *TaskGroup) hasPort(label string) bool {
	is := func(p Port) bool { return p.Label == label }
	return slices.ContainsFunc(g.Networks, func(n NetworkResource) bool {
		return slices.ContainsFunc(n.ReservedPorts, is) || slices.ContainsFunc(n.DynamicPorts, is)
	})
}

// ofTask checks the task that a service of a group, or a check, is about.
func (c *checker) ofTask(at string, g *TaskGroup, t *Task, name string) {
	switch {
	case t != nil && name != t.Name:
		c.addf(at, "%q is not the task that the service belongs to, %q", clip(name, 64), t.Name)
	case t == nil && name != "" && g.Task(name) == nil:
		c.addf(at, "the group has no task %q", clip(name, 64))
	}
}

func (c *checker) check(at string, g *TaskGroup, t *Task, k *ServiceCheck) {
	switch k.Type {
	case CheckHTTP:
		c.httpCheck(at, k)
	case CheckTCP:
		for name, present := range map[string]bool{"path": k.Path != "", "method": k.Method != "", "header": len(k.Header) > 0, "body": k.Body != "", "protocol": k.Protocol != ""} {
			if present {
				c.addf(at+"."+name, "is for checks of type %s", CheckHTTP)
			}
		}
	case "":
		c.addf(at+".type", "is missing; allowed are %s, %s", CheckHTTP, CheckTCP)
	default:
		c.addf(at+".type", "%q is not for services with provider = %q; allowed are %s, %s", clip(k.Type, 64), ServiceNomad, CheckHTTP, CheckTCP)
	}
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"advertise", k.Advertise != ""}, {"args", len(k.Args) > 0}, {"command", k.Command != ""}, {"expose", k.Expose},
		{"failures_before_warning", k.FailuresBeforeWarning != 0}, {"grpc_service", k.GRPCService != ""}, {"grpc_use_tls", k.GRPCUseTLS},
		{"initial_status", k.InitialStatus != ""}, {"notes", k.Notes != ""},
	} {
		if f.present {
			c.addf(at+"."+f.name, "is for checks that Consul makes, not for those with provider = %q", ServiceNomad)
		}
	}
	c.line(at+".name", k.Name, 4*MaxNameLen)
	if k.AddressMode != "" {
		c.oneOf(at+".address_mode", k.AddressMode, AddressAuto, AddressHost)
	}
	if k.PortLabel == "" {
		c.addf(at+".port", "is missing; the check, or its service, must name one")
	}
	c.port(at+".port", g, k.PortLabel)
	c.ofTask(at+".task", g, t, k.TaskName)
	c.period(at+".interval", k.Interval, minCheckPeriod)
	c.period(at+".timeout", k.Timeout, minCheckPeriod)
	c.between(at+".success_before_passing", int64(k.SuccessBeforePassing), 0, maxThreshold)
	c.between(at+".failures_before_critical", int64(k.FailuresBeforeCritical), 0, maxThreshold)
	c.oneOf(at+".on_update", k.OnUpdate, onUpdates...)
	if k.CheckRestart != nil {
		c.checkRestart(at+".check_restart", g, t, k.TaskName, k.CheckRestart)
	}
}

func (c *checker) httpCheck(at string, k *ServiceCheck) {
	c.oneOf(at+".protocol", k.Protocol, "http", "https")
	if !strings.HasPrefix(k.Path, "/") || strings.ContainsFunc(k.Path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		c.addf(at+".path", "%q does not begin with a slash, or has a space in it", clip(k.Path, 64))
	}
	if k.Method == "" || strings.ContainsFunc(k.Method, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }) {
		c.addf(at+".method", "%q is not a method of HTTP", clip(k.Method, 64))
	}
	if len(k.Body) > maxCheckBody {
		c.addf(at+".body", "%d bytes are too long; allowed are %d", len(k.Body), maxCheckBody)
	}
	if len(k.Header) > maxCheckHeaders {
		c.addf(at+".header", "%d are too many; allowed are %d", len(k.Header), maxCheckHeaders)
	}
	for name, values := range k.Header {
		bad := func(s string) bool { return strings.ContainsAny(s, "\r\n\x00") }
		if name == "" || strings.ContainsAny(name, " :\t\r\n\x00") || slices.ContainsFunc(values, bad) {
			c.addf(at+".header", "%q cannot be the name of a header, or its value has a line break", clip(name, 64))
		}
	}
	if k.Protocol != "https" && (k.TLSServerName != "" || k.TLSSkipVerify) {
		c.addf(at+".protocol", "%q has no TLS, which tls_server_name and tls_skip_verify are about; allowed is https", clip(k.Protocol, 64))
	}
}

func (c *checker) checkRestart(at string, g *TaskGroup, t *Task, task string, r *CheckRestart) {
	c.between(at+".limit", int64(r.Limit), 0, maxThreshold)
	c.period(at+".grace", r.Grace, 0)
	if t == nil && task == "" && len(g.Tasks) > 1 {
		c.addf(at, "does not say which of the group's tasks is to be restarted; set task in the service or the check")
	}
}

// ServiceName says whether a text can be the name of a service.
func ServiceName(s string) bool {
	if s == "" || len(s) > MaxServiceNameLen || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
