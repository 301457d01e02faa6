package berth

import (
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	c.oneOf(at+".type", j.Type, JobTypes...)
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
