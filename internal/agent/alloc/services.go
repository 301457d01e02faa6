package alloc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/agent/check"
	"berth/internal/agent/driver"
	"berth/internal/agent/task"
	"berth/op"
)

// The services of an allocation: each is registered while the task that it is
// about runs and shall go on, and its checks are made then. One of the group is
// about all of its tasks unless it names one.

// Registry makes servers know the services of allocations.
type Registry interface {
	// Services says which registrations an allocation has from now on. gone are
	// the IDs of those that it has not, of which servers may still know.
	Services(alloc string, have []*berth.ServiceRegistration, gone []string)
}

// service is one of an allocation as it is now.
type service struct {
	reg    *berth.ServiceRegistration
	checks []checkOf
	up     bool // what it is about runs
}

// checkOf is a check of a service as it is now.
type checkOf struct {
	id     string // the same at every look, see serviceOf
	spec   check.Spec
	status op.CheckStatus // what does not change
	counts bool           // for the allocation's health
	task   string         // to be restarted; "" is none
	up     bool           // what it is about runs, so it is to be made
}

// watched is a check that is being made.
type watched struct {
	spec   check.Spec         // as it was when it was begun
	cancel context.CancelFunc // ends it
	state  check.State        // what it last found
}

// checks are those of an allocation that are being made.
type checks struct {
	mu      sync.Mutex
	running map[string]*watched // by ID
	known   []checkOf           // all there are
	wait    sync.WaitGroup
}

// hasServices reports whether anything here has to do with an allocation.
func hasServices(g *berth.TaskGroup) bool {
	return len(g.Services) > 0 || slices.ContainsFunc(g.Tasks, func(t *berth.Task) bool { return len(t.Services) > 0 })
}

// serve registers the services that are up, and makes their checks. Only Run's
// goroutine calls it.
func (r *Runner) serve(ctx context.Context, dir string) {
	r.mu.Lock()
	a, stopped := r.alloc, r.stop != nil
	// One look at all tasks, so that services that depend on several agree.
	phases := map[string]task.State{}
	for i, t := range r.tasks {
		phases[r.names[i]] = t.State()
	}
	r.mu.Unlock()
	g := a.Job.Group(a.TaskGroup)
	if !hasServices(g) && !r.served {
		return
	}
	r.served = true
	place := r.c.Place(dir)
	place.Network = r.network.status()
	up := func(name string) bool {
		s := phases[name]
		return !stopped && s.Phase == task.Running && s.Kill == nil
	}
	var have []*berth.ServiceRegistration
	var gone []string
	var all []checkOf
	// A name that is refused is logged once, not at every turn.
	for _, s := range servicesOf(a, place, up) {
		if err := validService(s.reg); err != nil && !r.refused[s.reg.ID] {
			r.refused[s.reg.ID] = true
			r.c.Log.Warn("a service cannot be registered", "alloc", r.id, "error", err)
		} else if err == nil && s.up {
			s.reg.Unhealthy = r.unhealthy(s.checks)
			have = append(have, s.reg)
		}
		if !s.up {
			gone = append(gone, s.reg.ID)
		}
		all = append(all, s.checks...)
	}
	if r.c.Registry != nil {
		if r.c.Restored == nil {
			gone = nil // what this agent did not register, nobody has
		}
		r.c.Registry.Services(r.id, have, gone)
	}
	r.watch(ctx, all)
}

// validService refuses a name that is no DNS label once its variables are
// replaced. Servers check it before, which they cannot for a name with
// variables.
func validService(reg *berth.ServiceRegistration) error {
	if !berth.ServiceName(reg.ServiceName) {
		return berth.Errorf(berth.Invalid, "service name %.64q: must be 1 to %d letters, digits and hyphens", reg.ServiceName, berth.MaxServiceNameLen)
	}
	return nil
}

// servicesOf returns the services of an allocation, names replaced, and whether
// each is up.
func servicesOf(a *op.Alloc, p *task.Place, up func(task string) bool) (out []service) {
	g := a.Job.Group(a.TaskGroup)
	// A service of the group is up while every task is that runs for as long as
	// the allocation.
	mains := func() bool {
		for _, t := range g.Tasks {
			if !vitalOf(t, nil).once && !up(t.Name) {
				return false
			}
		}
		return true
	}
	isUp := func(name string) bool {
		if name == "" {
			return mains()
		}
		return up(name)
	}
	// Services of the group see the group's names, those of a task the task's.
	add := func(t *berth.Task, list []berth.Service) {
		if len(list) == 0 {
			return
		}
		names := task.ServiceNames(a, t, p)
		for i := range list {
			out = append(out, serviceOf(a, g, t, &list[i], names, p, isUp))
		}
	}
	add(nil, g.Services)
	for _, t := range g.Tasks {
		add(t, t.Services)
	}
	return out
}

// serviceOf returns one service with names replaced. t is nil for a service of
// the group. The registration's ID is the same at every call, so that it can be
// renewed and taken back.
func serviceOf(a *op.Alloc, g *berth.TaskGroup, t *berth.Task, s *berth.Service, names *task.Names, p *task.Place, isUp func(string) bool) service {
	// A canary shows itself by tags and metadata of its own until it is
	// promoted.
	tags, meta := s.Tags, s.Meta
	if a.DeploymentStatus != nil && a.DeploymentStatus.Canary {
		if len(s.CanaryTags) > 0 {
			tags = s.CanaryTags
		}
		if len(s.CanaryMeta) > 0 {
			meta = maps.Clone(s.Meta)
			if meta == nil {
				meta = map[string]string{}
			}
			maps.Copy(meta, s.CanaryMeta)
		}
	}
	// The ID has the form that Nomad gives it.
	whose := "group-" + g.Name
	if t != nil {
		whose = t.Name
	}
	name, label := names.Replace(s.Name), names.Replace(s.PortLabel)
	host, port := addressOf(a, p, s.TaskName, label, s.AddressMode)
	if s.Address != "" {
		host = names.Replace(s.Address)
	}
	out := service{up: isUp(s.TaskName), reg: &berth.ServiceRegistration{
		ID:          "_nomad-task-" + strings.Join([]string{a.ID.String(), whose, name, label}, "-"),
		ServiceName: name, Namespace: a.Namespace, NodeID: p.Node.ID, Datacenter: p.Node.Datacenter, JobID: a.JobID, AllocID: a.ID,
		Address: host, Port: port,
	}}
	for _, tag := range tags {
		out.reg.Tags = append(out.reg.Tags, names.Replace(tag))
	}
	for k, v := range meta {
		if out.reg.Meta == nil {
			out.reg.Meta = map[string]string{}
		}
		out.reg.Meta[names.Replace(k)] = names.Replace(v)
	}
	for i := range s.Checks {
		c := checkSpec(a, p, &s.Checks[i], names)
		// The place in the list tells apart checks of one name.
		id := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%s", out.reg.ID, i, c.status.Check))
		c.id = hex.EncodeToString(id[:16])
		c.status.ID, c.status.Service, c.status.Group = c.id, name, a.Name
		c.up = isUp(s.Checks[i].TaskName)
		if c.task = s.Checks[i].TaskName; c.task == "" && len(g.Tasks) == 1 {
			c.task = g.Tasks[0].Name
		}
		if c.spec.Type == berth.CheckScript {
			c.up = isUp(c.task)
		}
		if t != nil {
			c.status.Task = t.Name
		}
		out.checks = append(out.checks, c)
	}
	return out
}

// addressOf returns where a port of the allocation is: that of a label, or a
// number. A label of the task's own ports comes before one of the group's. The
// address mode decides between the node and the allocation's own network.
func addressOf(a *op.Alloc, p *task.Place, task, label, mode string) (host string, port int) {
	own := p.Network != nil && (mode == berth.AddressAlloc || mode == berth.AddressDriver)
	if own {
		host = p.Network.Address
	} else {
		host = p.Node.HostAddress()
	}
	for _, m := range a.AllocatedResources.PortsOf(task) {
		switch {
		case m.Label != label || label == "":
		case own && m.To > 0:
			return host, m.To
		case own:
			return host, m.Value
		default:
			return cmp.Or(m.HostIP, host), m.Value
		}
	}
	port, _ = strconv.Atoi(label)
	return host, port
}

// checkSpec returns a check with names replaced, without its ID. Interval and
// timeout are at least a second, lest a job floods its node.
func checkSpec(a *op.Alloc, p *task.Place, c *berth.ServiceCheck, names *task.Names) checkOf {
	host, port := addressOf(a, p, c.TaskName, names.Replace(c.PortLabel), c.AddressMode)
	out := checkOf{
		counts: c.OnUpdate != berth.OnUpdateIgnore,
		status: op.CheckStatus{Check: names.Replace(c.Name), Mode: "healthiness", Status: check.Pending},
		spec: check.Spec{
			Type: c.Type, Address: net.JoinHostPort(host, strconv.Itoa(port)), Protocol: c.Protocol, Path: names.Replace(c.Path), Method: strings.ToUpper(c.Method),
			Body: names.Replace(c.Body), TLSServerName: names.Replace(c.TLSServerName), TLSSkipVerify: c.TLSSkipVerify,
			Interval: max(c.Interval, time.Second), Timeout: max(c.Timeout, time.Second),
			GRPCService: names.Replace(c.GRPCService), GRPCUseTLS: c.GRPCUseTLS, PassWarnings: c.OnUpdate == berth.OnUpdateIgnoreWarnings,
			SuccessesWanted: c.SuccessBeforePassing, FailuresWanted: c.FailuresBeforeCritical,
		},
	}
	// Nomad's words for whether a check counts for health.
	if !out.counts {
		out.status.Mode = "readiness"
	}
	for k, values := range c.Header {
		if out.spec.Header == nil {
			out.spec.Header = map[string][]string{}
		}
		for _, v := range values {
			out.spec.Header[k] = append(out.spec.Header[k], names.Replace(v))
		}
	}
	if c.Type == berth.CheckScript {
		out.spec.Address = ""
		for _, word := range append([]string{c.Command}, c.Args...) {
			out.spec.Command = append(out.spec.Command, names.Replace(word))
		}
	}
	if r := c.CheckRestart; r != nil {
		out.spec.RestartLimit, out.spec.RestartGrace, out.spec.RestartIgnoresWarnings = r.Limit, r.Grace, r.IgnoreWarnings
	}
	return out
}

// unhealthy reports whether one of a service's checks does not pass. A check that
// was not made yet does not, unless an earlier agent ran the allocation: its tasks
// were not disturbed by the agent's restart, and neither is their name.
func (r *Runner) unhealthy(list []checkOf) bool {
	r.checks.mu.Lock()
	defer r.checks.mu.Unlock()
	for _, c := range list {
		status := check.Pending
		if w := r.checks.running[c.id]; w != nil {
			status = w.state.Status
		}
		if status == check.Failure || status == check.Pending && r.c.Restored == nil {
			return true
		}
	}
	return false
}

// watch makes the checks that are up, and no others.
func (r *Runner) watch(ctx context.Context, all []checkOf) {
	k := &r.checks
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known = all
	// A check whose settings changed is ended and begun again below.
	wanted := map[string]*checkOf{}
	for i := range all {
		if all[i].up {
			wanted[all[i].id] = &all[i]
		}
	}
	for id, w := range k.running {
		if c := wanted[id]; c == nil || !c.spec.Equal(&w.spec) {
			w.cancel()
			delete(k.running, id)
		}
	}
	for id, c := range wanted {
		if k.running[id] != nil {
			continue
		}
		w := &watched{spec: c.spec, state: check.State{Status: check.Pending}}
		own, cancel := context.WithCancel(ctx)
		w.cancel = cancel
		if k.running == nil {
			k.running = map[string]*watched{}
		}
		k.running[id] = w
		whose, name := c.task, c.status.Check
		k.wait.Go(func() {
			check.Run(own, &w.spec, r.scripts(whose), func(st check.State, restart bool) { r.looked(w, st, restart, whose, name) })
		})
	}
}

// scripts returns what runs scripts of checks beside a task.
func (r *Runner) scripts(name string) check.Executor {
	return func(ctx context.Context, command []string, out io.Writer) (int, error) {
		run, err := r.Execer(name)
		if err != nil {
			return 0, err
		}
		return run(ctx, &driver.Exec{Command: command, Stdin: strings.NewReader(""), Stdout: out, Stderr: out})
	}
}

// looked takes over what a check found.
func (r *Runner) looked(w *watched, st check.State, restart bool, whose, name string) {
	k := &r.checks
	k.mu.Lock()
	changed := w.state.Status != st.Status
	w.state = st
	k.mu.Unlock()
	if restart {
		r.mu.Lock()
		for i, t := range r.tasks {
			if whose == "" || r.names[i] == whose { // without a task, all of the group
				t.Fail(fmt.Sprintf("healthcheck: check %q unhealthy: it failed %d times in a row", name, w.spec.RestartLimit))
			}
		}
		r.mu.Unlock()
	}
	if changed {
		r.nudge()
	}
}

// endServices ends the checks. The registrations of an allocation that has
// ended are taken back; those of one whose agent ends stay.
func (r *Runner) endServices(ended bool) {
	k := &r.checks
	k.mu.Lock()
	for id, w := range k.running {
		w.cancel()
		delete(k.running, id)
	}
	if ended {
		k.known = nil
	}
	k.mu.Unlock()
	k.wait.Wait()
	if ended && r.served && r.c.Registry != nil {
		r.c.Registry.Services(r.id, nil, nil)
	}
}

// checksPass returns since when all checks that count pass, zero if not all of
// them do; nil if there are none.
func (r *Runner) checksPass() *time.Time {
	k := &r.checks
	k.mu.Lock()
	defer k.mu.Unlock()
	var since time.Time
	count := 0
	for i := range k.known {
		if !k.known[i].counts {
			continue
		}
		count++
		w := k.running[k.known[i].id]
		if w == nil || w.state.Status != check.Success {
			return &time.Time{}
		}
		if w.state.Since.After(since) {
			since = w.state.Since
		}
	}
	if count == 0 {
		return nil
	}
	return &since
}

// Checks returns how the checks of the allocation's services last went, by ID.
func (r *Runner) Checks() map[string]op.CheckStatus {
	k := &r.checks
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]op.CheckStatus{}
	for i := range k.known {
		s := k.known[i].status
		if w := k.running[s.ID]; w != nil {
			s.Status, s.Output, s.StatusCode = w.state.Status, w.state.Last.Output, w.state.Last.Code
			if !w.state.At.IsZero() {
				s.Timestamp = w.state.At.Unix()
			}
		}
		out[s.ID] = s
	}
	return out
}
