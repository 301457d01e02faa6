package admit

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
)

// Limits of services.
const (
	MaxServices       = 100 // in a group, those of its tasks included
	MaxServiceChecks  = 50  // in a service
	MaxServiceNameLen = 63
	MaxServiceTags    = 100
	MaxServiceTagLen  = 255
	maxCheckBody      = 64 << 10  // bytes of the request
	maxCheckHeaders   = 100       // per check
	maxGRPCService    = 1024      // bytes of the name of a service of gRPC
	maxThreshold      = 1_000_000 // results in a row before a check changes
	minCheckPeriod    = time.Second
	defaultGrace      = time.Second
)

// onUpdates are the values of on_update in services and checks.
var onUpdates = []string{berth.OnUpdateRequireHealthy, berth.OnUpdateIgnoreWarnings, berth.OnUpdateIgnore}

// completeServices sets the defaults of the services of a group or of one of
// its tasks.
func completeServices(j *berth.Job, g *berth.TaskGroup, t *berth.Task, list []berth.Service) {
	for i := range list {
		s := &list[i]
		if t != nil {
			orDefault(&s.Name, j.Name+"-"+g.Name+"-"+t.Name)
			orDefault(&s.TaskName, t.Name)
		}
		orDefault(&s.Name, j.Name+"-"+g.Name)
		orDefault(&s.AddressMode, berth.AddressAuto)
		orDefault(&s.OnUpdate, berth.OnUpdateRequireHealthy)
		s.Meta, s.CanaryMeta, s.TaggedAddresses = normalMap(s.Meta), normalMap(s.CanaryMeta), normalMap(s.TaggedAddresses)
		for k := range s.Checks {
			c := &s.Checks[k]
			orDefault(&c.OnUpdate, s.OnUpdate)
			orDefault(&c.PortLabel, s.PortLabel)
			orDefault(&c.TaskName, s.TaskName)
			orDefault(&c.Name, fmt.Sprintf("service: %q check", s.Name))
			if c.Type == berth.CheckHTTP {
				orDefault(&c.Protocol, "http")
				orDefault(&c.Method, "GET")
			}
			c.CheckRestart = mergeCheckRestart(s.CheckRestart, c.CheckRestart)
		}
	}
}

// mergeCheckRestart returns the check_restart of a check, completed from that
// of its service.
func mergeCheckRestart(r, own *berth.CheckRestart) *berth.CheckRestart {
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
	if n.Grace == defaultGrace { // most likely the default
		n.Grace = r.Grace
	}
	n.IgnoreWarnings = n.IgnoreWarnings || r.IgnoreWarnings
	return &n
}

// groupServices checks the services of a group and of its tasks.
func (c *checker) groupServices(at string, g *berth.TaskGroup) {
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
			c.service(fmt.Sprintf("%s.task[%s]", at, berth.Clip(t.Name, 64)), g, t, &t.Services[i], seen)
		}
	}
	c.atMost(at+".service", servicesLimit, n, "services")
}

// service checks a service of a group, or of task t if it is not nil. seen
// holds the services of the group so far.
func (c *checker) service(at string, g *berth.TaskGroup, t *berth.Task, s *berth.Service, seen map[string]bool) {
	at = fmt.Sprintf("%s.service[%s]", at, berth.Clip(s.Name, 64))
	// A name with references is complete only on the node.
	if !strings.Contains(s.Name, "${") && !berth.ServiceName(s.Name) {
		c.addf(at+".name", "must be 1 to %d letters, digits and hyphens, with no hyphen at either end, got %q", berth.MaxServiceNameLen, berth.Clip(s.Name, 64))
	}
	// These three are what distinguishes two registrations of an
	// allocation.
	id := s.Name + " " + s.PortLabel + " " + s.TaskName
	if seen[id] {
		c.addf(at, "is defined twice for the same task with the port %q", berth.Clip(s.PortLabel, 64))
	}
	seen[id] = true
	if native(s) {
		c.consulOnly(at, s)
	} else { // what only services in Consul have follows from the provider
		c.addf(at+".provider", "%q is not supported: must be %q", berth.Clip(s.Provider, 64), berth.ServiceNomad)
	}
	c.oneOf(at+".on_update", s.OnUpdate, onUpdates...)
	c.atMost(at+".tags", tagsLimit, len(s.Tags), "tags")
	c.atMost(at+".canary_tags", tagsLimit, len(s.CanaryTags), "tags")
	for _, tag := range slices.Concat(s.Tags, s.CanaryTags) {
		c.line(at+".tags", tag, berth.MaxServiceTagLen)
	}
	c.strings(at+".meta", s.Meta)
	c.strings(at+".canary_meta", s.CanaryMeta)
	c.address(at, g, s)
	c.port(at+".port", g, s.TaskName, s.PortLabel, 0) // 0 announces a service without a port
	c.ofTask(at+".task", g, t, s.TaskName)
	if !c.atMost(at+".check", checksLimit, len(s.Checks), "checks") {
		return
	}
	for i := range s.Checks {
		k := &s.Checks[i]
		c.check(fmt.Sprintf("%s.check[%s]", at, berth.Clip(k.Name, 64)), g, t, s, k)
	}
	if s.CheckRestart != nil && len(s.Checks) == 0 {
		c.checkRestart(at+".check_restart", s.CheckRestart)
	}
}

// native reports whether a service is in Berth's own registry. One that names no
// provider is: agents with Consul do not exist.
func native(s *berth.Service) bool { return s.Provider == "" || s.Provider == berth.ServiceNomad }

// CompleteProviders sets the provider of services that name none, and returns
// what users should know about it, one line for each group.
func CompleteProviders(j *berth.Job) (warnings []string) {
	for _, g := range j.TaskGroups {
		var names []string
		complete := func(list []berth.Service) {
			for i := range list {
				if s := &list[i]; s.Provider == "" {
					s.Provider = berth.ServiceNomad
					names = append(names, strconv.Quote(berth.Clip(s.Name, 64)))
				}
			}
		}
		complete(g.Services)
		for _, t := range g.Tasks {
			complete(t.Services)
		}
		switch n := len(names); {
		case n == 1:
			warnings = append(warnings, fmt.Sprintf("group %q: service %s names no provider, so it is registered with provider = %q; Consul is not supported", g.Name, names[0], berth.ServiceNomad))
		case n > 1:
			warnings = append(warnings, fmt.Sprintf("group %q: services %s name no provider, so they are registered with provider = %q; Consul is not supported", g.Name, berth.Clip(strings.Join(names, ", "), 256), berth.ServiceNomad))
		}
	}
	return warnings
}

// consulOnly refuses fields that only services in Consul have.
func (c *checker) consulOnly(at string, s *berth.Service) {
	for _, f := range []struct {
		name    string
		present bool
	}{
		{"cluster", s.Cluster != "" && s.Cluster != "default"}, {"connect", s.Connect != nil}, {"enable_tag_override", s.EnableTagOverride},
		{"identity", s.Identity != nil}, {"kind", s.Kind != ""}, {"tagged_addresses", len(s.TaggedAddresses) > 0}, {"weights", s.Weights != nil},
	} {
		if f.present {
			c.addf(at+"."+f.name, "is only for services in Consul, not with provider = %q", berth.ServiceNomad)
		}
	}
}

// address checks the address and address mode of a service.
func (c *checker) address(at string, g *berth.TaskGroup, s *berth.Service) {
	c.addressMode(at+".address_mode", g, s.AddressMode)
	if s.Address != "" && s.AddressMode != berth.AddressAuto {
		c.addf(at+".address", "needs address_mode = %q, got %q", berth.AddressAuto, s.AddressMode)
	}
	if s.Address == "" || strings.Contains(s.Address, "${") {
		return
	}
	if _, err := netip.ParseAddr(s.Address); err != nil && (len(s.Address) > berth.MaxJobIDLen || strings.ContainsAny(s.Address, " /:\t\n")) {
		c.addf(at+".address", "must be an IP address or a host name, got %q", berth.Clip(s.Address, 64))
	}
}

// addressMode checks the address mode of a service or check. Only groups with a
// network of their own have an address beside the node's.
func (c *checker) addressMode(at string, g *berth.TaskGroup, mode string) {
	c.oneOf(at, mode, berth.AddressAuto, berth.AddressHost, berth.AddressAlloc, berth.AddressDriver)
	if mode != berth.AddressAlloc && mode != berth.AddressDriver {
		return
	}
	for i := range g.Networks {
		if m := g.Networks[i].Mode; m == berth.NetworkBridge || strings.HasPrefix(m, berth.NetworkCNI) {
			return
		}
	}
	c.addf(at, "must be auto or host, because the group has no network of its own (mode bridge or cni/…), got %s", mode)
}

// port checks a port: a number, or the label of a port of the group or of the
// task that it is about. One with references is complete only on the node.
func (c *checker) port(at string, g *berth.TaskGroup, task, label string, lowest int64) {
	if label == "" || strings.Contains(label, "${") {
		return
	}
	if n, err := strconv.Atoi(label); err == nil {
		c.between(at, int64(n), lowest, berth.MaxPort)
		return
	}
	other := ""
	for t, n := range g.AllNetworks() {
		is := func(p berth.Port) bool { return p.Label == label }
		switch {
		case !slices.ContainsFunc(n.ReservedPorts, is) && !slices.ContainsFunc(n.DynamicPorts, is):
		case t == nil || t.Name == task:
			return
		default:
			other = t.Name
		}
	}
	if other != "" {
		c.addf(at, "the group's networks have no port %q, only task %q has: set task to it", berth.Clip(label, 64), berth.Clip(other, 64))
		return
	}
	c.addf(at, "the group's networks have no port %q", berth.Clip(label, 64))
}

// ofTask checks the task that a service or a check refers to.
func (c *checker) ofTask(at string, g *berth.TaskGroup, t *berth.Task, name string) {
	switch {
	case t != nil && name != t.Name:
		c.addf(at, "must be the task that the service belongs to, %q, got %q", t.Name, berth.Clip(name, 64))
	case t == nil && name != "" && g.Task(name) == nil:
		c.addf(at, "the group has no task %q", berth.Clip(name, 64))
	}
}
