package berth

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/internal/expr"
)

// Limits of a stream job. The plan of all it consists of is one value in the
// replicated log.
const (
	MaxWidth       = 1000   // channels of a parallel region
	MaxElements    = 5000   // processing elements
	MaxConnections = 50_000 // pairs of ports that streams of the job join
	MaxPoolSize    = 10_000 // nodes of a host pool
	maxStreamPorts = 10_000 // exports, or imports, counted once for each channel
	maxProperties  = 100    // of an export
	maxTokens      = 100    // of a placement, or tags or hosts of a pool
)

// streamName is what parts of a stream job are called: they are parts of paths
// and of other names.
var streamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// propertyName is what an expression can name.
var propertyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// stream checks what only stream jobs say, and that a stream job says nothing
// that others say.
func (c *checker) stream(at string, j *Job) {
	if j.Type != TypeStream {
		c.notStream(at, j)
		return
	}
	c.neverStream(at, j)
	s := j.Stream
	if s == nil || slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return g.Stream == nil }) {
		c.addf(at, "a job of type stream, or a group of it, lacks its stream block")
		return
	}
	c.line(at+".application.name", s.Application.Name, MaxJobIDLen)
	c.line(at+".application.scope", s.Application.Scope, MaxNameLen)
	c.submission(at+".submission", &s.Submission)
	c.named(at+".host_pool", len(s.HostPools), func(i int) string { return s.HostPools[i].Name })
	c.named(at+".parallel_region", len(s.Regions), func(i int) string { return s.Regions[i].Name })
	c.named(at+".stream", len(s.Streams), func(i int) string { return s.Streams[i].Name })
	c.named(at+".export", len(s.Exports), func(i int) string { return s.Exports[i].Name })
	c.named(at+".import", len(s.Imports), func(i int) string { return s.Imports[i].Name })
	for i := range s.HostPools {
		c.hostPool(fmt.Sprintf("%s.host_pool[%s]", at, clip(s.HostPools[i].Name, 64)), &s.HostPools[i])
	}
	widths := c.regions(at, j)
	c.connections(at, j, widths)
	c.crossings(at, j, widths)
	for _, g := range j.TaskGroups {
		c.streamGroup(fmt.Sprintf("%s.group[%s]", at, clip(g.Name, 64)), j, g, widths)
	}
	c.together(at, j, widths)
}

// notStream refuses blocks of stream jobs in others.
func (c *checker) notStream(at string, j *Job) {
	no := func(what bool, at string) {
		if what {
			c.addf(at, "is for jobs of type stream, not for those of type %s", clip(j.Type, 64))
		}
	}
	if s := j.Stream; s != nil {
		before := len(c.problems)
		no(s.Application != StreamApplication{Name: string(j.ID), Scope: DefaultScope}, at+".application")
		no(s.Submission != defaultStream().Submission, at+".submission")
		no(len(s.HostPools) > 0, at+".host_pool")
		no(len(s.Regions) > 0, at+".parallel_region")
		no(len(s.Streams) > 0, at+".stream")
		no(len(s.Exports) > 0, at+".export")
		no(len(s.Imports) > 0, at+".import")
		no(len(c.problems) == before, at+".application")
	}
	for _, g := range j.TaskGroups {
		gat := fmt.Sprintf("%s.group[%s]", at, clip(g.Name, 64))
		if s := g.Stream; s != nil {
			before := len(c.problems)
			no(!s.Placement.isZero(), gat+".placement")
			no(s.Policy != defaultStreamGroup().Policy, gat+".pe")
			no(len(s.Inputs) > 0, gat+".input")
			no(len(s.Outputs) > 0, gat+".output")
			no(s.LiveRewire, gat+".live_rewire")
			no(len(c.problems) == before, gat+".pe")
		}
		for _, t := range g.Tasks {
			if t.Connectivity != nil {
				no(true, fmt.Sprintf("%s.task[%s].connectivity", gat, clip(t.Name, 64)))
			}
		}
	}
}

func (p *PEPlacement) isZero() bool {
	return p.Pool == "" && p.PoolHost == nil && p.Host == "" && len(p.Colocate) == 0 && len(p.Exlocate) == 0 && !p.Isolated
}

// neverStream refuses in a stream job what says how others run: its instances
// are launched one by one, by their own policies.
func (c *checker) neverStream(at string, j *Job) {
	no := func(present bool, at, instead string) {
		if present {
			c.addf(at, "is not for jobs of type stream%s", instead)
		}
	}
	const ends = ": what ends is launched anew as the pe block of its group says"
	no(j.Update != nil, at+".update", ": an update launches what changed anew")
	no(j.Reschedule.Enabled(), at+".reschedule", ends)
	no(j.Migrate != nil, at+".migrate", ends)
	no(j.AllAtOnce, at+".all_at_once", ": each instance has a plan of its own")
	for _, g := range j.TaskGroups {
		gat := fmt.Sprintf("%s.group[%s]", at, clip(g.Name, 64))
		no(g.Update != nil && g.Update != j.Update, gat+".update", ": an update launches what changed anew")
		no(g.ReschedulePolicy != j.Reschedule && g.ReschedulePolicy.Enabled(), gat+".reschedule", ends)
		no(g.Migrate != nil && g.Migrate != j.Migrate, gat+".migrate", ends)
		no(g.Scaling != nil, gat+".scaling", ": the width of a parallel_region is what scales")
		no(g.Disconnect != nil, gat+".disconnect", "")
		no(g.MaxClientDisconnect != 0, gat+".max_client_disconnect", "")
		no(g.PreventRescheduleOnLost, gat+".prevent_reschedule_on_lost", "")
		c.noRestart(gat+".restart", g.RestartPolicy)
		for _, t := range g.Tasks {
			if t.RestartPolicy != g.RestartPolicy {
				c.noRestart(fmt.Sprintf("%s.task[%s].restart", gat, clip(t.Name, 64)), t.RestartPolicy)
			}
		}
	}
}

// noRestart: an agent that starts a task again by itself would bypass the count
// of launches.
func (c *checker) noRestart(at string, p *RestartPolicy) {
	if p.Attempts != 0 {
		c.addf(at+".attempts", "%d is not for jobs of type stream, which count every launch; allowed is 0, and restart_failed in the group's pe block", p.Attempts)
	}
	if p.Mode != RestartFail {
		c.addf(at+".mode", "%q is not for jobs of type stream, which count every launch; allowed is %s", clip(p.Mode, 64), RestartFail)
	}
}

func (c *checker) submission(at string, p *SubmissionPolicy) {
	c.period(at+".timeout", p.Timeout, time.Millisecond)
	c.oneOf(at+".on_timeout", p.OnTimeout, OnTimeoutRecover, OnTimeoutFail)
	c.between(at+".max_retries", int64(p.MaxRetries), 0, 1000)
	c.oneOf(at+".recovery", p.Recovery, InterruptRecreate, InterruptResume)
	c.oneOf(at+".interrupted_update", p.InterruptedUpdate, InterruptResume, InterruptRecreate)
}

// named checks the labels of blocks of one kind.
func (c *checker) named(at string, n int, name func(int) string) {
	for i := range n {
		if s := name(i); !streamName.MatchString(s) {
			c.addf(fmt.Sprintf("%s[%s]", at, clip(s, 64)), "the label must be letters, digits, - and _, up to 64")
		}
	}
	c.twins(at, n, name)
}

// words checks a list of short texts that name something.
func (c *checker) words(at string, list []string, most int) {
	if len(list) > most {
		c.addf(at, "%d are too many; allowed are %d", len(list), most)
		return
	}
	seen := map[string]bool{}
	for _, s := range list {
		c.line(at, s, MaxNameLen)
		switch {
		case s == "" || strings.TrimSpace(s) != s || strings.ContainsRune(s, ','):
			c.addf(at, "%q is empty, or has a comma or a space around it", clip(s, 64))
		case seen[s]:
			c.addf(at, "%q is there twice", clip(s, 64))
		}
		seen[s] = true
	}
}

func (c *checker) hostPool(at string, p *HostPoolSpec) {
	c.words(at+".tags", p.Tags, maxTokens)
	c.words(at+".hosts", p.Hosts, maxTokens)
	c.oneOf(at+".mode", p.Mode, PoolShared, PoolExclusive)
	c.between(at+".size", int64(p.Size), 0, MaxPoolSize)
	if len(p.Hosts) > 0 {
		if len(p.Tags) > 0 {
			c.addf(at+".hosts", "stands beside tags; a pool has one of the two")
		}
		if p.Size > len(p.Hosts) {
			c.addf(at+".size", "%d is more than there are hosts, %d", p.Size, len(p.Hosts))
		}
	}
}

// regions checks the parallel regions, and returns how many instances each
// group has.
func (c *checker) regions(at string, j *Job) map[string]int {
	widths, in := map[string]int{}, map[string]string{}
	for _, g := range j.TaskGroups {
		widths[g.Name] = 1
	}
	for i := range j.Stream.Regions {
		r := &j.Stream.Regions[i]
		rat := fmt.Sprintf("%s.parallel_region[%s]", at, clip(r.Name, 64))
		c.between(rat+".width", int64(r.Width), 1, MaxWidth)
		if len(r.Groups) == 0 {
			c.addf(rat+".groups", "is missing; at least one group is wanted")
		}
		for _, name := range r.Groups {
			switch other, twice := in[name]; {
			case j.Group(name) == nil:
				c.noGroup(rat+".groups", j, name)
			case twice && other == r.Name:
				c.addf(rat+".groups", "%q is there twice", clip(name, 64))
			case twice:
				c.addf(rat+".groups", "%q is in parallel_region %q too; a group is in one", clip(name, 64), clip(other, 64))
			default:
				in[name], widths[name] = r.Name, r.width()
			}
		}
	}
	all := 0
	for _, n := range widths {
		all += n
	}
	if all > MaxElements {
		c.addf(at+".parallel_region", "the groups have %d processing elements together; allowed are %d", all, MaxElements)
	}
	return widths
}

// width returns the width, or the nearest one that is allowed.
func (r *RegionSpec) width() int { return min(max(r.Width, 1), MaxWidth) }

func (c *checker) noGroup(at string, j *Job, name string) {
	var names []string
	for _, g := range j.TaskGroups {
		names = append(names, g.Name)
	}
	c.addf(at, "there is no group %q; there are %s", clip(name, 64), clip(strings.Join(names, ", "), 256))
}

// streamPort checks that a text names an output, or an input, of a group.
func (c *checker) streamPort(at string, j *Job, s string, output bool) bool {
	what := "input"
	if output {
		what = "output"
	}
	group, port := SplitPort(s)
	if group == "" || port == "" {
		c.addf(at, "%q is not a group and its %s, such as \"group.%s\"", clip(s, 64), what, what)
		return false
	}
	g := j.Group(group)
	if g == nil {
		c.noGroup(at, j, group)
		return false
	}
	var names []string
	if output {
		for _, o := range g.Stream.Outputs {
			names = append(names, o.Name)
		}
	} else {
		for _, in := range g.Stream.Inputs {
			names = append(names, in.Name)
		}
	}
	switch {
	case slices.Contains(names, port):
		return true
	case len(names) == 0:
		c.addf(at, "group %q has no %s", clip(group, 64), what)
	default:
		c.addf(at, "group %q has no %s %q; it has %s", clip(group, 64), what, clip(port, 64), clip(strings.Join(names, ", "), 256))
	}
	return false
}

// connections checks the streams within the job.
func (c *checker) connections(at string, j *Job, widths map[string]int) {
	type join struct{ from, to string }
	joined, spread, all := map[join]string{}, map[string]*StreamEdge{}, 0
	for i := range j.Stream.Streams {
		s := &j.Stream.Streams[i]
		sat := fmt.Sprintf("%s.stream[%s]", at, clip(s.Name, 64))
		c.oneOf(sat+".distribution", s.Distribution, DistributionBroadcast, DistributionRoundRobin, DistributionHash)
		known := c.streamPort(sat+".from", j, s.From, true)
		if first := spread[s.From]; first == nil {
			spread[s.From] = s
		} else if first.Distribution != s.Distribution {
			c.addf(sat+".distribution", "%q is not that of stream %q, %q, which has the same output", clip(s.Distribution, 64), clip(first.Name, 64), clip(first.Distribution, 64))
		}
		if len(s.To) == 0 {
			c.addf(sat+".to", "is missing; at least one input is wanted")
		}
		for _, to := range s.To {
			if !c.streamPort(sat+".to", j, to, false) || !known {
				continue
			}
			if other, twice := joined[join{s.From, to}]; twice {
				c.addf(sat+".to", "%q gets %s already, by stream %q", clip(to, 64), clip(s.From, 64), clip(other, 64))
				continue
			}
			joined[join{s.From, to}] = s.Name
			a, _ := SplitPort(s.From)
			b, _ := SplitPort(to)
			n := widths[a]
			if r := j.Stream.Region(a); r == nil || !slices.Contains(r.Groups, b) {
				n *= widths[b]
			}
			all += n
		}
	}
	if all > MaxConnections {
		c.addf(at+".stream", "the streams join %d pairs of ports; allowed are %d", all, MaxConnections)
	}
}

// crossings checks the streams that leave the job or come into it.
func (c *checker) crossings(at string, j *Job, widths map[string]int) {
	exports, imports := 0, 0
	for i := range j.Stream.Exports {
		x := &j.Stream.Exports[i]
		xat := fmt.Sprintf("%s.export[%s]", at, clip(x.Name, 64))
		c.streamPort(xat+".from", j, x.From, true)
		c.oneOf(xat+".congestion", x.Congestion, CongestionWait, CongestionDrop)
		c.line(xat+".stream_id", x.StreamID, MaxNameLen)
		switch {
		case x.StreamID != "" && len(x.Properties) > 0:
			c.addf(xat+".properties", "stands beside stream_id; a stream is exported by one of the two")
		case x.StreamID == "" && len(x.Properties) == 0:
			c.addf(xat, "has neither stream_id nor properties; one of them is wanted")
		}
		c.problems = append(c.problems, CheckProperties(xat+".properties", x.Properties)...)
		group, _ := SplitPort(x.From)
		exports += widths[group]
	}
	for i := range j.Stream.Imports {
		m := &j.Stream.Imports[i]
		c.imported(fmt.Sprintf("%s.import[%s]", at, clip(m.Name, 64)), j, m)
		group, _ := SplitPort(m.Into)
		imports += widths[group]
	}
	if n := max(exports, imports); n > maxStreamPorts {
		c.addf(at, "%d exports or imports, counted for each processing element, are too many; allowed are %d", n, maxStreamPorts)
	}
}

func (c *checker) imported(at string, j *Job, m *ImportSpec) {
	c.streamPort(at+".into", j, m.Into, false)
	c.line(at+".application", m.Application, MaxJobIDLen)
	c.line(at+".scope", m.Scope, MaxNameLen)
	c.line(at+".stream_id", m.StreamID, MaxNameLen)
	if m.StreamID == "" && m.Subscription == "" {
		c.addf(at, "has neither stream_id nor subscription; one of them is wanted")
	}
	if m.Application != "" && m.StreamID == "" {
		c.addf(at+".application", "is for an import by stream_id; a subscription is about the properties of exports")
	}
	c.problems = append(c.problems, CheckExpression(at+".subscription", m.Subscription)...)
	c.problems = append(c.problems, CheckExpression(at+".filter", m.Filter)...)
}

// CheckExpression returns what is wrong with a subscription or filter; none
// (the empty text) is right.
func CheckExpression(at, text string) (out Problems) {
	if text == "" {
		return nil
	}
	if _, err := expr.Parse(text); err != nil {
		out.Addf(at, "%q: %v", clip(text, 128), err)
	}
	return out
}

// CheckProperties returns what is wrong with the properties of an export.
func CheckProperties(at string, properties map[string]any) (out Problems) {
	if n := len(properties); n > maxProperties {
		out.Addf(at, "%d are too many; allowed are %d", n, maxProperties)
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		pat := fmt.Sprintf("%s[%s]", at, clip(name, 64))
		if !propertyName.MatchString(name) || name == "true" || name == "false" || name == "in" {
			out.Addf(pat, "no expression can name it: allowed are letters, digits and _, up to 64, that begin with no digit and are none of true, false and in")
		}
		v := properties[name]
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		first := ""
		for _, item := range list {
			switch kind := propertyKind(item); {
			case kind == "":
				out.Addf(pat, "%s is no property; allowed are true and false, numbers, strings, and lists of one of them", clip(fmt.Sprint(item), 64))
			case first != "" && kind != first:
				out.Addf(pat, "is a list of a %s and a %s; a list holds one kind", first, kind)
			default:
				first = kind
				continue
			}
			break
		}
	}
	return out
}

// propertyKind names the kind of one value, "" if it can be none.
func propertyKind(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case int64, float64:
		return "number"
	case string:
		return "string"
	}
	return ""
}
