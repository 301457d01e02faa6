package berth

import (
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/go-version"
)

// Limits of a job. Those on groups and counts are Nomad's defaults.
const (
	MaxJobIDLen    = 255
	MaxNameLen     = 128 // of groups and tasks: they name directories
	MaxGroups      = 1000
	MaxTasks       = 100 // in a group
	MaxCount       = 50000
	MaxConditions  = 200 // constraints, or affinities, of one job, group or task
	MaxPorts       = 200 // in a group
	MaxRegexpLen   = 1000
	maxCPU         = 10_000_000 // MHz
	maxMemoryMB    = 1 << 30    // a pebibyte
	maxDiskMB      = 1 << 40    //
	maxCores       = 10_000     // of a task
	maxDevices     = 10_000     // of a request
	maxRequests    = 100        // for devices, of a task
	minMemoryMB    = 10         //
	minDiskMB      = 10         //
	maxDuration    = 100 * 365 * 24 * time.Hour
	minInterval    = 5 * time.Second
	minReschedWait = 5 * time.Second
)

// Validate returns everything wrong with a complete job, each with its place.
// It refuses by name whatever is not built yet: nothing a user writes is
// ignored.
func (j *Job) Validate() Problems {
	c := checker{}
	c.job(j)
	return c.problems
}

// Warnings returns what a user should know of a valid job.
func (j *Job) Warnings() (out []string) {
	for _, g := range j.TaskGroups {
		for _, n := range g.Networks {
			if n.MBits != 0 {
				out = append(out, fmt.Sprintf("group %q: network.mbits has no effect; bandwidth is not scheduled", g.Name))
			}
		}
		if g.Count == 0 {
			out = append(out, fmt.Sprintf("group %q: count is 0, so nothing of it will run", g.Name))
		}
		for _, t := range g.Tasks {
			if t.Resources.DiskMB != 0 {
				out = append(out, fmt.Sprintf("group %q, task %q: resources.disk has no effect; the group's ephemeral_disk does", g.Name, t.Name))
			}
			if t.Resources.IOPS != 0 {
				out = append(out, fmt.Sprintf("group %q, task %q: resources.iops has no effect", g.Name, t.Name))
			}
		}
	}
	if j.Stream != nil {
		out = append(out, j.unjoined()...)
	}
	return out
}

type checker struct {
	problems Problems
	ofDevice bool // conditions are those of a device
}

func (c *checker) addf(at, format string, args ...any) { c.problems.Addf(at, format, args...) }

func (c *checker) between(at string, v, low, high int64) {
	if v < low || v > high {
		c.addf(at, "%d is out of range; allowed are %d to %d", v, low, high)
	}
}

func (c *checker) period(at string, v, low time.Duration) {
	if v < low || v > maxDuration {
		c.addf(at, "%v is out of range; allowed are %v to %v", v, low, maxDuration)
	}
}

func (c *checker) oneOf(at, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		c.addf(at, "%q is not allowed; allowed are %s", clip(v, 64), strings.Join(allowed, ", "))
	}
}

func (c *checker) job(j *Job) {
	const at = "job"
	c.jobID(at+".id", string(j.ID))
	c.line(at+".name", j.Name, MaxJobIDLen)
	c.line(at+".namespace", j.Namespace, MaxNameLen)
	if j.Namespace == AllNamespaces {
		c.addf(at+".namespace", "%q names all namespaces; a job lives in one", j.Namespace)
	}
	c.line(at+".region", j.Region, MaxNameLen)
	c.line(at+".node_pool", j.NodePool, MaxNameLen)
	c.oneOf(at+".type", j.Type, TypeService, TypeBatch, TypeSystem, TypeSysbatch, TypeStream)
	c.between(at+".priority", int64(j.Priority), MinPriority, MaxPriority)
	for _, dc := range j.Datacenters {
		if _, err := path.Match(dc, ""); err != nil || dc == "" {
			c.addf(at+".datacenters", "%q is not a datacenter or a glob", clip(dc, 64))
		}
	}
	c.texts(at+".meta", j.Meta)
	c.conditions(at, j.Constraints, j.Affinities)
	c.spreads(at, j.Spreads)
	if j.Reschedule != nil {
		c.reschedule(at+".reschedule", j.Reschedule)
	}
	c.migrate(at+".migrate", j, j.Migrate)
	c.update(at+".update", j, j.Update)
	if j.PerNode() {
		c.perNode(at, j)
	}
	c.begets(at, j)
	c.unbuiltJob(at, j)

	switch n := len(j.TaskGroups); {
	case n == 0:
		c.addf(at+".group", "a job needs at least one group")
	case n > MaxGroups:
		c.addf(at+".group", "%d groups are too many; allowed are %d", n, MaxGroups)
		return
	}
	c.twins(at+".group", len(j.TaskGroups), func(i int) string { return j.TaskGroups[i].Name })
	for _, g := range j.TaskGroups {
		c.group(fmt.Sprintf("%s.group[%s]", at, clip(g.Name, 64)), j, g)
	}
	c.stream(at, j)
}

// perNode checks what a job that runs on every node may not say: it chooses no
// nodes, and its instances go nowhere else.
func (c *checker) perNode(at string, j *Job) {
	const why = "is not for jobs of type %s, which run on every node that meets their conditions"
	no := func(present bool, at string) {
		if present {
			c.addf(at, why, j.Type)
		}
	}
	no(len(j.Affinities) > 0, at+".affinity")
	no(len(j.Spreads) > 0, at+".spread")
	no(j.Reschedule.Enabled(), at+".reschedule")
	no(j.Migrate != nil, at+".migrate")
	c.perNodeUpdate(at+".update", j, j.Update)
	for _, g := range j.TaskGroups {
		gat := fmt.Sprintf("%s.group[%s]", at, clip(g.Name, 64))
		if g.Count > 1 && j.Type == TypeSystem {
			c.addf(gat+".count", "%d is too many for a job of type system, which runs one on every node; allowed are 0 and 1", g.Count)
		}
		no(len(g.Affinities) > 0, gat+".affinity")
		no(len(g.Spreads) > 0, gat+".spread")
		no(g.ReschedulePolicy != j.Reschedule && g.ReschedulePolicy.Enabled(), gat+".reschedule")
		no(g.Migrate != nil && g.Migrate != j.Migrate, gat+".migrate")
		if g.Update != j.Update {
			c.perNodeUpdate(gat+".update", j, g.Update)
		}
		for _, t := range g.Tasks {
			no(len(t.Affinities) > 0, fmt.Sprintf("%s.task[%s].affinity", gat, clip(t.Name, 64)))
		}
	}
}

func (c *checker) perNodeUpdate(at string, j *Job, u *UpdateStrategy) {
	switch {
	case u == nil:
	case j.Type == TypeSysbatch:
		c.addf(at, "is not for jobs of type sysbatch: each node runs them once")
	default:
		c.between(at+".max_parallel", int64(u.MaxParallel), 0, MaxCount)
		if u.MaxParallel > 0 {
			c.period(at+".stagger", u.Stagger, time.Millisecond)
		}
	}
}

func (c *checker) jobID(at, id string) {
	switch {
	case id == "":
		c.addf(at, "a job needs an ID")
	case len(id) > MaxJobIDLen:
		c.addf(at, "%d bytes are too long; allowed are %d", len(id), MaxJobIDLen)
	case !utf8.ValidString(id):
		c.addf(at, "is not valid UTF-8")
	case strings.ContainsFunc(id, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		c.addf(at, "%q has a space or a character that cannot be printed", id)
	}
}

// line checks a text that is shown on one line; empty is allowed.
func (c *checker) line(at, s string, most int) {
	switch {
	case len(s) > most:
		c.addf(at, "%d bytes are too long; allowed are %d", len(s), most)
	case !utf8.ValidString(s):
		c.addf(at, "is not valid UTF-8")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.addf(at, "%q has a character that cannot be printed", s)
	}
}

// reservedNames are directories of an allocation that are not a task's.
var reservedNames = []string{"alloc", ".", ".."}

// name checks the name of a group or task: it names a directory and an
// environment variable, and two of them must not look alike.
func (c *checker) name(at, s string) {
	bad := func(r rune) bool { return r < ' ' || r > '~' || r == '/' || r == '\\' }
	switch {
	case s == "":
		c.addf(at, "a name is wanted")
	case len(s) > MaxNameLen:
		c.addf(at, "%d bytes are too long; allowed are %d", len(s), MaxNameLen)
	case strings.ContainsFunc(s, bad):
		c.addf(at, "%q has a slash or a character that is not plain ASCII", s)
	case strings.TrimSpace(s) != s:
		c.addf(at, "%q begins or ends with a space", s)
	case slices.Contains(reservedNames, strings.ToLower(s)):
		c.addf(at, "%q is reserved", s)
	}
}

// twins refuses names that are equal but for case.
func (c *checker) twins(at string, n int, name func(int) string) {
	seen := map[string]string{}
	for i := range n {
		s := name(i)
		k := strings.ToLower(s)
		if other, ok := seen[k]; ok {
			if other == s {
				c.addf(fmt.Sprintf("%s[%s]", at, clip(s, 64)), "is there twice")
			} else {
				c.addf(fmt.Sprintf("%s[%s]", at, clip(s, 64)), "differs from %q only in case", other)
			}
		}
		seen[k] = s
	}
}

func (c *checker) texts(at string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k == "" || strings.ContainsRune(k, 0) || !utf8.ValidString(k) || !utf8.ValidString(m[k]) {
			c.addf(at, "%q is not a usable key, or its value is not valid UTF-8", clip(k, 64))
		}
	}
}

// group checks a group. Blocks that it took over from the job are the same
// pointers and were checked there; so it is with tasks.
func (c *checker) group(at string, j *Job, g *TaskGroup) {
	c.name(at+".name", g.Name)
	c.between(at+".count", int64(g.Count), 0, MaxCount)
	c.texts(at+".meta", g.Meta)
	c.conditions(at, g.Constraints, g.Affinities)
	c.spreads(at, g.Spreads)
	c.restart(at+".restart", g.RestartPolicy)
	if g.ReschedulePolicy != nil && g.ReschedulePolicy != j.Reschedule {
		c.reschedule(at+".reschedule", g.ReschedulePolicy)
	}
	if g.EphemeralDisk != nil {
		c.between(at+".ephemeral_disk.size", int64(g.EphemeralDisk.SizeMB), minDiskMB, maxDiskMB)
	}
	c.period(at+".shutdown_delay", g.ShutdownDelay, 0)
	c.maxRun(at+".max_run_duration", j, g.MaxRunDuration)
	c.away(at, j, g)
	if g.Update != j.Update {
		c.update(at+".update", j, g.Update)
	}
	if g.Migrate != j.Migrate {
		c.migrate(at+".migrate", j, g.Migrate)
	}
	c.networks(at, g.Networks)
	c.volumes(at, j, g)
	c.scaling(at+".scaling", j, g)
	c.groupServices(at, g)
	c.unbuiltGroup(at, j, g)

	switch n := len(g.Tasks); {
	case n == 0:
		c.addf(at+".task", "a group needs at least one task")
	case n > MaxTasks:
		c.addf(at+".task", "%d tasks are too many; allowed are %d", n, MaxTasks)
		return
	}
	c.twins(at+".task", len(g.Tasks), func(i int) string { return g.Tasks[i].Name })
	logs, leaders := 0, 0
	for _, t := range g.Tasks {
		c.dispatchPayload(fmt.Sprintf("%s.task[%s].dispatch_payload", at, clip(t.Name, 64)), j, t.DispatchPayload)
		c.task(fmt.Sprintf("%s.task[%s]", at, clip(t.Name, 64)), g, t)
		if !t.LogConfig.Disabled {
			logs += min(t.LogConfig.MaxFiles, math.MaxInt32) * min(t.LogConfig.MaxFileSizeMB, math.MaxInt32) * 2
		}
		if t.Leader {
			leaders++
		}
	}
	if leaders > 1 {
		c.addf(at+".task", "%d tasks are leader; allowed is one", leaders)
	}
	if disk := g.EphemeralDisk; disk != nil && logs/2 >= disk.SizeMB && len(c.problems) == 0 {
		c.addf(at+".ephemeral_disk.size", "%d MiB do not hold the logs of the tasks, %d MiB", disk.SizeMB, logs/2)
	}
}

func (c *checker) task(at string, g *TaskGroup, t *Task) {
	c.name(at+".name", t.Name)
	c.driver(at, t)
	c.line(at+".user", t.User, MaxNameLen)
	c.texts(at+".meta", t.Meta)
	for _, k := range slices.Sorted(maps.Keys(t.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(t.Env[k], 0) || !utf8.ValidString(k+t.Env[k]) {
			c.addf(at+".env", "%q cannot be an environment variable", clip(k, 64))
		}
	}
	c.conditions(at, t.Constraints, t.Affinities)
	c.resources(at+".resources", t.Resources)
	if t.RestartPolicy != g.RestartPolicy {
		c.restart(at+".restart", t.RestartPolicy)
	}
	c.period(at+".kill_timeout", t.KillTimeout, 0)
	c.period(at+".shutdown_delay", t.ShutdownDelay, 0)
	if t.KillSignal != "" && !slices.Contains(signals, strings.ToUpper(t.KillSignal)) {
		c.addf(at+".kill_signal", "%q is not a signal; allowed are %s", clip(t.KillSignal, 64), strings.Join(signals, ", "))
	}
	c.between(at+".logs.max_files", int64(t.LogConfig.MaxFiles), 1, 10_000)
	c.between(at+".logs.max_file_size", int64(t.LogConfig.MaxFileSizeMB), 1, maxMemoryMB)
	c.taskScaling(at+".scaling", t)
	c.unbuiltTask(at, t)
}

// signals are those a task may be asked to end with.
var signals = []string{
	"SIGABRT", "SIGALRM", "SIGCONT", "SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM", "SIGTRAP",
	"SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGIO", "SIGPIPE", "SIGPROF", "SIGSTOP", "SIGTTIN", "SIGTTOU",
}

func (c *checker) resources(at string, r *Resources) {
	switch {
	case r.Cores == 0:
		c.between(at+".cpu", int64(r.CPU), 1, maxCPU)
	case r.CPU != 0:
		c.addf(at+".cpu", "%d is there beside %d cores; a task asks for cpu or for cores", r.CPU, r.Cores)
	default:
		c.between(at+".cores", int64(r.Cores), 1, maxCores)
	}
	c.between(at+".memory", int64(r.MemoryMB), minMemoryMB, maxMemoryMB)
	if r.MemoryMaxMB != 0 {
		c.between(at+".memory_max", int64(r.MemoryMaxMB), int64(r.MemoryMB), maxMemoryMB)
	}
	c.devices(at, r.Devices)
	if r.NUMA != nil {
		c.numa(at+".numa", r)
	}
}

// devices checks what a task asks of its node's devices.
func (c *checker) devices(at string, devices []RequestedDevice) {
	if len(devices) > maxRequests {
		c.addf(at+".device", "%d requests are too many; allowed are %d", len(devices), maxRequests)
		return
	}
	seen := map[string]bool{}
	for i := range devices {
		d := &devices[i]
		dat := fmt.Sprintf("%s.device[%s]", at, clip(d.Name, 64))
		parts := strings.Split(d.Name, "/")
		if len(parts) > 3 || slices.Contains(parts, "") || len(d.Name) > MaxJobIDLen {
			c.addf(dat, "the name must be a type, a vendor/type or a vendor/type/name")
		}
		if seen[d.Name] {
			c.addf(dat, "is there twice; count says how many")
		}
		seen[d.Name] = true
		if d.Count < 1 || d.Count > maxDevices {
			c.addf(dat+".count", "%d is out of range; allowed are 1 to %d", d.Count, maxDevices)
		}
		c.ofDevice = true
		c.conditions(dat, d.Constraints, d.Affinities)
		c.ofDevice = false
	}
}

// numa checks what a task wants of NUMA nodes.
func (c *checker) numa(at string, r *Resources) {
	c.oneOf(at+".affinity", r.NUMA.Affinity, NUMANone, NUMAPrefer, NUMARequire)
	if r.Cores == 0 {
		c.addf(at, "is about whole cores; ask for cores instead of cpu")
	}
	for _, name := range r.NUMA.Devices {
		if !slices.ContainsFunc(r.Devices, func(d RequestedDevice) bool { return d.Name == name }) {
			c.addf(at+".devices", "%q is not the name of a device that the task asks for", clip(name, 64))
		}
	}
}

func (c *checker) restart(at string, p *RestartPolicy) {
	c.oneOf(at+".mode", p.Mode, RestartDelay, RestartFail)
	c.unbuilt(p.RenderTemplates, at+".render_templates", "")
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.period(at+".interval", p.Interval, minInterval)
	c.period(at+".delay", p.Delay, 0)
	if n := int64(p.Attempts); n > 0 && n <= 1_000_000 && p.Delay > 0 && p.Interval/p.Delay < time.Duration(n) {
		c.addf(at, "%d restarts with a delay of %v do not fit in an interval of %v", n, p.Delay, p.Interval)
	}
}

func (c *checker) reschedule(at string, p *ReschedulePolicy) {
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.period(at+".interval", p.Interval, 0)
	if !p.Enabled() {
		if p.Attempts > 0 {
			c.addf(at+".interval", "0s leaves no room for %d attempts", p.Attempts)
		}
		return
	}
	c.oneOf(at+".delay_function", p.DelayFunction, DelayConstant, DelayExponential, DelayFibonacci)
	c.period(at+".delay", p.Delay, minReschedWait)
	c.period(at+".max_delay", p.MaxDelay, 0)
	if p.DelayFunction != DelayConstant && p.MaxDelay < p.Delay {
		c.addf(at+".max_delay", "%v is below the delay, %v", p.MaxDelay, p.Delay)
	}
	if p.Unlimited && p.Attempts > 0 {
		c.addf(at+".unlimited", "is true, so attempts cannot be %d too", p.Attempts)
	}
}

// maxRun checks how long an allocation may run; 0 is for ever. What ends by it
// has completed, which of jobs that go on for ever would be no end.
func (c *checker) maxRun(at string, j *Job, d time.Duration) {
	if d == 0 {
		return
	}
	c.period(at, d, time.Nanosecond)
	if j.Type != TypeBatch && j.Type != TypeSysbatch {
		c.addf(at, "is not allowed in a job of type %s; allowed are batch and sysbatch", clip(j.Type, 64))
	}
}

// away checks what is said of agents that are not heard. The fields from before
// the disconnect block say the same, so a group has either.
func (c *checker) away(at string, j *Job, g *TaskGroup) {
	var old string // of the fields from before, one that is set
	for _, f := range []struct {
		set  bool
		name string
	}{
		{g.PreventRescheduleOnLost, "prevent_reschedule_on_lost"},
		{g.StopAfterClientDisconnect != 0, "stop_after_client_disconnect"},
		{g.MaxClientDisconnect != 0, "max_client_disconnect"},
	} {
		if f.set {
			old = f.name
		}
	}
	c.period(at+".max_client_disconnect", g.MaxClientDisconnect, 0)
	c.period(at+".stop_after_client_disconnect", g.StopAfterClientDisconnect, 0)
	lost, stop, lostName := g.MaxClientDisconnect, at+".stop_after_client_disconnect", "max_client_disconnect"
	if d := g.Disconnect; d != nil {
		dat := at + ".disconnect"
		if old != "" {
			c.addf(dat, "is there beside %s, which says the same; allowed is one of them", old)
		}
		lost, stop, lostName = d.LostAfter, dat+".stop_on_client_after", "lost_after"
		c.period(dat+".lost_after", d.LostAfter, 0)
		if d.StopOnClientAfter != nil {
			c.period(stop, *d.StopOnClientAfter, time.Nanosecond)
		}
		c.oneOf(dat+".reconcile", d.Reconcile, KeepBestScore, KeepOriginal, KeepReplacement, KeepLongestRunning)
	}
	if g.StopAway() == 0 {
		return
	}
	if lost != 0 {
		c.addf(stop, "is there beside %s; allowed is one of them", lostName)
	}
	if j.Type != TypeService && j.Type != TypeBatch {
		c.addf(stop, "is not allowed in a job of type %s; allowed are service and batch", clip(j.Type, 64))
	}
}

var portLabel = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *checker) networks(at string, networks []NetworkResource) {
	if len(networks) > 1 {
		c.addf(at+".network", "is there %d times; allowed is once", len(networks))
	}
	type space struct { // ports of one host network
		network string
		port    int
	}
	seen, taken := map[string]bool{}, map[space]string{}
	for i := range networks {
		n := &networks[i]
		if name, isCNI := strings.CutPrefix(n.Mode, NetworkCNI); isCNI {
			if !portLabel.MatchString(strings.ReplaceAll(name, ".", "-")) {
				c.addf(at+".network.mode", "%q names no CNI network", clip(n.Mode, 64))
			}
		} else {
			c.oneOf(at+".network.mode", n.Mode, NetworkHost, NetworkBridge, NetworkNone, NetworkCNI+"…")
		}
		ports := slices.Concat(n.ReservedPorts, n.DynamicPorts)
		if len(ports) > MaxPorts {
			c.addf(at+".network.port", "%d ports are too many; allowed are %d", len(ports), MaxPorts)
			continue
		}
		for _, p := range ports {
			pat := fmt.Sprintf("%s.network.port[%s]", at, clip(p.Label, 64))
			if !portLabel.MatchString(p.Label) {
				c.addf(pat, "the label must be letters, digits, - and _, up to 64")
			}
			if seen[strings.ToLower(p.Label)] {
				c.addf(pat, "is there twice")
			}
			seen[strings.ToLower(p.Label)] = true
			if p.Value != 0 {
				c.between(pat+".static", int64(p.Value), 1, MaxPort)
				at := space{p.Network(), p.Value}
				if other := taken[at]; other != "" {
					c.addf(pat+".static", "%d is the static port of %q too", p.Value, other)
				}
				taken[at] = p.Label
			}
			c.line(pat+".host_network", p.HostNetwork, MaxNameLen)
			if p.IgnoreCollision && (p.Value == 0 || n.Mode != NetworkHost) {
				c.addf(pat+".ignore_collision", "is for static ports in mode host alone")
			}
			c.between(pat+".to", int64(p.To), -1, MaxPort)
		}
	}
}

// volumes checks what a group asks of its node's volumes.
func (c *checker) volumes(at string, j *Job, g *TaskGroup) {
	if len(g.Volumes) > maxRequests {
		c.addf(at+".volume", "%d volumes are too many; allowed are %d", len(g.Volumes), maxRequests)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.Volumes)) {
		v := g.Volumes[name]
		vat := fmt.Sprintf("%s.volume[%s]", at, clip(name, 64))
		c.line(vat, name, MaxNameLen)
		c.oneOf(vat+".type", v.Type, VolumeHost, VolumeCSI)
		c.line(vat+".source", v.Source, MaxNameLen)
		if v.Source == "" {
			c.addf(vat+".source", "is missing")
		}
		if v.PerAlloc && (j.Type == TypeSystem || j.Type == TypeSysbatch) {
			c.addf(vat+".per_alloc", "is not for %s jobs", j.Type)
		}
		if v.Type == VolumeHost && v.MountOptions != nil {
			c.addf(vat+".mount_options", "is for csi volumes alone")
		}
		if v.PerAlloc && v.Sticky {
			c.addf(vat+".sticky", "and per_alloc exclude each other")
		}
	}
}

func (c *checker) conditions(at string, cons []Constraint, affs []Affinity) {
	if n := max(len(cons), len(affs)); n > MaxConditions {
		c.addf(at, "%d constraints or affinities are too many; allowed are %d", n, MaxConditions)
		return
	}
	for i, x := range cons {
		c.condition(fmt.Sprintf("%s.constraint[%d]", at, i), x.LTarget, x.Operand, x.RTarget)
	}
	for i, x := range affs {
		aat := fmt.Sprintf("%s.affinity[%d]", at, i)
		if x.Operand == OpDistinctHosts || x.Operand == OpDistinctProperty {
			c.addf(aat+".operator", "%s is for constraints only", x.Operand)
			continue
		}
		c.condition(aat, x.LTarget, x.Operand, x.RTarget)
		if x.Weight == 0 || x.Weight < -100 || x.Weight > 100 {
			c.addf(aat+".weight", "%d is out of range; allowed are -100 to 100, except 0", x.Weight)
		}
	}
}

var operators = []string{
	OpEqual, OpNotEqual, OpLess, OpLessEqual, OpGreater, OpGreaterEqual, OpRegexp, OpVersion, OpSemver,
	OpSetContains, OpSetContainsAll, OpSetContainsAny, OpIsSet, OpIsNotSet, OpDistinctHosts, OpDistinctProperty,
	"==", "is", "not",
}

func (c *checker) condition(at, left, operand, right string) {
	c.oneOf(at+".operator", operand, operators...)
	if c.ofDevice && (operand == OpDistinctHosts || operand == OpDistinctProperty) {
		c.addf(at+".operator", "%s is not for devices", operand)
		return
	}
	switch operand {
	case OpDistinctHosts:
		c.oneOf(at+".value", right, "", "true", "false")
		return
	case OpDistinctProperty:
		if right != "" {
			n, err := strconv.Atoi(right)
			if err != nil || n < 1 {
				c.addf(at+".value", "%q is not a count of at least 1", clip(right, 64))
			}
		}
	case OpRegexp:
		if len(right) > MaxRegexpLen {
			c.addf(at+".value", "%d bytes are too long for a regexp; allowed are %d", len(right), MaxRegexpLen)
		} else if _, err := regexp.Compile(right); err != nil {
			c.addf(at+".value", "is not a regexp: %v", err)
		}
	case OpVersion, OpSemver:
		if _, err := version.NewConstraint(right); err != nil {
			c.addf(at+".value", "%q is not a version constraint such as \">= 1.2, < 2\"", clip(right, 64))
		}
	case OpSetContains, OpSetContainsAll, OpSetContainsAny:
		if right == "" {
			c.addf(at+".value", "a comma-separated list is wanted")
		}
	}
	if left == "" {
		c.addf(at+".attribute", "is missing")
	}
	c.target(at+".attribute", left)
	c.target(at+".value", right)
}

// nodeProperties are what ${node.…} may name.
var nodeProperties = []string{"unique.id", "unique.name", "datacenter", "class", "pool", "region"}

// deviceProperties are what ${device.…} may name beside attributes.
var deviceProperties = []string{"vendor", "type", "model", "ids"}

// target checks an interpolation that stands for something of the node.
func (c *checker) target(at, s string) {
	inner, ok := strings.CutPrefix(s, "${")
	if !ok {
		return
	}
	inner, ok = strings.CutSuffix(inner, "}")
	if !ok {
		c.addf(at, "%q lacks its closing brace", clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); {
	case c.ofDevice && kind == "device":
		if key, isAttr := strings.CutPrefix(rest, "attr."); !isAttr || key == "" {
			c.oneOf(at, rest, deviceProperties...)
		}
		return
	case c.ofDevice:
		c.addf(at, "%q is not known; allowed here are ${device.attr.…}, ${device.vendor}, ${device.type}, ${device.model} and ${device.ids}", clip(s, 64))
		return
	}
	switch kind, rest, _ := strings.Cut(inner, "."); kind {
	case "node":
		c.oneOf(at, rest, nodeProperties...)
	case "attr", "meta":
		if rest == "" {
			c.addf(at, "%q names nothing", clip(s, 64))
		}
	default:
		c.addf(at, "%q is not known; allowed are ${node.…}, ${attr.…} and ${meta.…}", clip(s, 64))
	}
}
