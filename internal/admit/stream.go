package admit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/pattern"
)

// Limits of a stream job. Its whole plan is a single value in the log.
const (
	MaxElements    = 5000   // processing elements
	MaxConnections = 50_000 // pairs of ports that streams connect
	MaxPoolSize    = 10_000 // nodes in a host pool
	maxStreamPorts = 10_000 // exports, or imports, counted once per channel
	maxProperties  = 100    // in an export
	maxTokens      = 100    // in a placement, or tags or hosts in a pool
)

// streamName matches the names of parts of a stream job. They occur in paths
// and in other names.
var streamName = pattern.New(`^[A-Za-z0-9_-]{1,64}$`)

// completeStream sets the defaults of fields that were given as empty text.
func completeStream(s *berth.StreamSpec, job berth.JobID) {
	orDefault(&s.Application.Name, string(job))
	orDefault(&s.Application.Scope, berth.DefaultScope)
	orDefault(&s.Submission.OnTimeout, berth.OnTimeoutRecover)
	orDefault(&s.Submission.Recovery, berth.InterruptRecreate)
	orDefault(&s.Submission.InterruptedUpdate, berth.InterruptResume)
	for i := range s.HostPools {
		orDefault(&s.HostPools[i].Mode, berth.PoolShared)
	}
	for i := range s.Streams {
		orDefault(&s.Streams[i].Distribution, berth.DistributionBroadcast)
	}
	for i := range s.Exports {
		orDefault(&s.Exports[i].Congestion, berth.CongestionWait)
	}
	for i := range s.Imports {
		orDefault(&s.Imports[i].Scope, berth.DefaultScope)
	}
}

// width returns the width of a region, or the nearest allowed one.
func width(r *berth.RegionSpec) int { return min(max(r.Width, 1), berth.MaxWidth) }

// stream checks the blocks of stream jobs, and refuses them in other jobs.
func (c *checker) stream(at string, j *berth.Job) {
	if j.Type != berth.TypeStream {
		c.notStream(at, j)
		return
	}
	c.neverStream(at, j)
	s := j.Stream
	if s == nil || slices.ContainsFunc(j.TaskGroups, func(g *berth.TaskGroup) bool { return g.Stream == nil }) {
		c.addf(at, "the stream block of the job or of a group is missing")
		return
	}
	c.line(at+".application.name", s.Application.Name, berth.MaxJobIDLen)
	c.line(at+".application.scope", s.Application.Scope, berth.MaxNameLen)
	c.submission(at+".submission", &s.Submission)
	c.labels(at+".host_pool", len(s.HostPools), func(i int) string { return s.HostPools[i].Name })
	c.labels(at+".parallel_region", len(s.Regions), func(i int) string { return s.Regions[i].Name })
	c.labels(at+".stream", len(s.Streams), func(i int) string { return s.Streams[i].Name })
	c.labels(at+".export", len(s.Exports), func(i int) string { return s.Exports[i].Name })
	c.labels(at+".import", len(s.Imports), func(i int) string { return s.Imports[i].Name })
	for i := range s.HostPools {
		c.hostPool(fmt.Sprintf("%s.host_pool[%s]", at, berth.Clip(s.HostPools[i].Name, 64)), &s.HostPools[i])
	}
	widths := c.regions(at, j)
	c.connections(at, j, widths)
	c.crossings(at, j, widths)
	for _, g := range j.TaskGroups {
		c.streamGroup(fmt.Sprintf("%s.group[%s]", at, berth.Clip(g.Name, 64)), j, g, widths)
	}
	c.colocation(at, j, widths)
}

// notStream refuses blocks of stream jobs in other jobs.
func (c *checker) notStream(at string, j *berth.Job) {
	no := func(what bool, at string) {
		if what {
			c.addf(at, "is only for jobs of type stream, not %s", berth.Clip(j.Type, 64))
		}
	}
	if s := j.Stream; s != nil {
		before := len(c.problems)
		no(s.Application != berth.StreamApplication{Name: string(j.ID), Scope: berth.DefaultScope}, at+".application")
		no(s.Submission != defaultStream().Submission, at+".submission")
		no(len(s.HostPools) > 0, at+".host_pool")
		no(len(s.Regions) > 0, at+".parallel_region")
		no(len(s.Streams) > 0, at+".stream")
		no(len(s.Exports) > 0, at+".export")
		no(len(s.Imports) > 0, at+".import")
		no(len(c.problems) == before, at+".application")
	}
	for _, g := range j.TaskGroups {
		gat := fmt.Sprintf("%s.group[%s]", at, berth.Clip(g.Name, 64))
		if s := g.Stream; s != nil {
			before := len(c.problems)
			no(!unplaced(&s.Placement), gat+".placement")
			no(s.Policy != defaultStreamGroup().Policy, gat+".pe")
			no(len(s.Inputs) > 0, gat+".input")
			no(len(s.Outputs) > 0, gat+".output")
			no(s.LiveRewire, gat+".live_rewire")
			no(len(c.problems) == before, gat+".pe")
		}
		for _, t := range g.Tasks {
			if t.Connectivity != nil {
				no(true, fmt.Sprintf("%s.task[%s].connectivity", gat, berth.Clip(t.Name, 64)))
			}
		}
	}
}

// unplaced reports whether the placement leaves the node open.
func unplaced(p *berth.PEPlacement) bool {
	return p.Pool == "" && p.PoolHost == nil && p.Host == "" && len(p.Colocate) == 0 && len(p.Exlocate) == 0 && !p.Isolated
}

// neverStream refuses blocks that say how other jobs run: processing elements are
// launched one by one, by the policy of their group.
func (c *checker) neverStream(at string, j *berth.Job) {
	no := func(present bool, at, instead string) {
		if present {
			c.addf(at, "is not for jobs of type stream%s", instead)
		}
	}
	const ends = "; the pe block of the group says what is launched again"
	no(j.Update != nil, at+".update", "; an update launches what changed again")
	no(j.Reschedule.Enabled(), at+".reschedule", ends)
	no(j.Migrate != nil, at+".migrate", ends)
	no(j.AllAtOnce, at+".all_at_once", "; each instance has its own plan")
	for _, g := range j.TaskGroups {
		gat := fmt.Sprintf("%s.group[%s]", at, berth.Clip(g.Name, 64))
		no(g.Update != nil && g.Update != j.Update, gat+".update", "; an update launches what changed again")
		no(g.ReschedulePolicy != j.Reschedule && g.ReschedulePolicy.Enabled(), gat+".reschedule", ends)
		no(g.Migrate != nil && g.Migrate != j.Migrate, gat+".migrate", ends)
		no(g.Scaling != nil, gat+".scaling", "; the width of a parallel_region is what scales")
		if d := g.Disconnect; d != nil { // what is lost is launched again elsewhere, and does not come back
			const only = "; the only key of this block for them is stop_on_client_after"
			no(d.LostAfter != 0, gat+".disconnect.lost_after", only)
			no(!d.Replace, gat+".disconnect.replace", only)
			no(d.Reconcile != berth.KeepBestScore, gat+".disconnect.reconcile", only)
		}
		no(g.MaxClientDisconnect != 0, gat+".max_client_disconnect", "")
		no(g.PreventRescheduleOnLost, gat+".prevent_reschedule_on_lost", "")
		c.noRestart(gat+".restart", g.RestartPolicy)
		for _, t := range g.Tasks {
			if t.RestartPolicy != g.RestartPolicy {
				c.noRestart(fmt.Sprintf("%s.task[%s].restart", gat, berth.Clip(t.Name, 64)), t.RestartPolicy)
			}
		}
	}
}

// noRestart refuses restarts by the agent, which would bypass the count of
// launches.
func (c *checker) noRestart(at string, p *berth.RestartPolicy) {
	if p.Attempts != 0 {
		c.addf(at+".attempts", "must be 0 for jobs of type stream, got %d; use restart_failed in the group's pe block", p.Attempts)
	}
	if p.Mode != berth.RestartFail {
		c.addf(at+".mode", "must be %s for jobs of type stream, got %q", berth.RestartFail, berth.Clip(p.Mode, 64))
	}
}

// submission checks how long the submission of a stream job may take and what
// follows when it takes longer.
func (c *checker) submission(at string, p *berth.SubmissionPolicy) {
	c.duration(at+".timeout", p.Timeout, time.Millisecond)
	c.oneOf(at+".on_timeout", p.OnTimeout, berth.OnTimeoutRecover, berth.OnTimeoutFail)
	c.between(at+".max_retries", int64(p.MaxRetries), 0, 1000)
	c.oneOf(at+".recovery", p.Recovery, berth.InterruptRecreate, berth.InterruptResume)
	c.oneOf(at+".interrupted_update", p.InterruptedUpdate, berth.InterruptResume, berth.InterruptRecreate)
}

// labels checks the labels of the blocks of one kind.
func (c *checker) labels(at string, n int, name func(int) string) {
	for i := range n {
		if s := name(i); !streamName.MatchString(s) {
			c.addf(fmt.Sprintf("%s[%s]", at, berth.Clip(s, 64)), "the label must be 1 to 64 letters, digits, - or _")
		}
	}
	c.duplicates(at, n, name)
}

// tokens checks a list of names.
func (c *checker) tokens(at string, list []string) {
	if !c.atMost(at, tokensLimit, len(list), "entries") {
		return
	}
	seen := map[string]bool{}
	for _, s := range list {
		c.line(at, s, berth.MaxNameLen)
		switch {
		case s == "" || strings.TrimSpace(s) != s || strings.ContainsRune(s, ','):
			c.addf(at, "must not be empty, contain a comma, or begin or end with a space, got %q", berth.Clip(s, 64))
		case seen[s]:
			c.addf(at, "%q is listed twice", berth.Clip(s, 64))
		}
		seen[s] = true
	}
}

// hostPool checks a host pool, which is selected by tags or by the names of its
// hosts, not by both. Size 0 is no fixed size.
func (c *checker) hostPool(at string, p *berth.HostPoolSpec) {
	c.tokens(at+".tags", p.Tags)
	c.tokens(at+".hosts", p.Hosts)
	c.oneOf(at+".mode", p.Mode, berth.PoolShared, berth.PoolExclusive)
	c.between(at+".size", int64(p.Size), 0, MaxPoolSize)
	if len(p.Hosts) > 0 {
		if len(p.Tags) > 0 {
			c.addf(at+".hosts", "cannot be combined with tags")
		}
		if p.Size > len(p.Hosts) {
			c.addf(at+".size", "must be at most the number of hosts, %d, got %d", len(p.Hosts), p.Size)
		}
	}
}

// regions checks the parallel regions and returns the number of instances of each
// group.
func (c *checker) regions(at string, j *berth.Job) map[string]int {
	widths, in := map[string]int{}, map[string]string{}
	for _, g := range j.TaskGroups {
		widths[g.Name] = 1
	}
	for i := range j.Stream.Regions {
		r := &j.Stream.Regions[i]
		rat := fmt.Sprintf("%s.parallel_region[%s]", at, berth.Clip(r.Name, 64))
		c.between(rat+".width", int64(r.Width), 1, berth.MaxWidth)
		if len(r.Groups) == 0 {
			c.addf(rat+".groups", "is missing: want at least one group")
		}
		for _, name := range r.Groups {
			switch other, twice := in[name]; {
			case j.Group(name) == nil:
				c.noGroup(rat+".groups", j, name)
			case twice && other == r.Name:
				c.addf(rat+".groups", "%q is listed twice", berth.Clip(name, 64))
			case twice:
				c.addf(rat+".groups", "%q is already in parallel_region %q", berth.Clip(name, 64), berth.Clip(other, 64))
			default:
				in[name], widths[name] = r.Name, width(r)
			}
		}
	}
	// The limit is on processing elements; each channel has its own.
	all := 0
	for _, n := range widths {
		all += n
	}
	if all > MaxElements {
		c.addf(at+".parallel_region", "at most %d processing elements are allowed in all groups, got %d", MaxElements, all)
	}
	return widths
}

// noGroup notes a reference to a group that the job does not have.
func (c *checker) noGroup(at string, j *berth.Job, name string) {
	var names []string
	for _, g := range j.TaskGroups {
		names = append(names, g.Name)
	}
	c.addf(at, "unknown group %q: the job has %s", berth.Clip(name, 64), berth.Clip(strings.Join(names, ", "), 256))
}

// unconnectedPorts returns warnings about ports of a stream job that no stream,
// import or export uses.
func unconnectedPorts(j *berth.Job) (out []string) {
	used := map[string]bool{}
	for i := range j.Stream.Streams {
		s := &j.Stream.Streams[i]
		used["output "+s.From] = true
		for _, to := range s.To {
			used["input "+to] = true
		}
	}
	for i := range j.Stream.Exports {
		used["output "+j.Stream.Exports[i].From] = true
	}
	for i := range j.Stream.Imports {
		used["input "+j.Stream.Imports[i].Into] = true
	}
	for _, g := range j.TaskGroups {
		for i := range g.Stream.Inputs {
			if name := g.Stream.Inputs[i].Name; !used["input "+g.Name+"."+name] {
				out = append(out, fmt.Sprintf("group %q: input %q is not connected to a stream or import", g.Name, name))
			}
		}
		for i := range g.Stream.Outputs {
			if name := g.Stream.Outputs[i].Name; !used["output "+g.Name+"."+name] {
				out = append(out, fmt.Sprintf("group %q: output %q is not connected to a stream or export", g.Name, name))
			}
		}
	}
	return out
}
