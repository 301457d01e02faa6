package admit

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"berth"
	"berth/internal/decode"
)

// decoder decodes a job, group by group and task by task.
type decoder struct{ decode.Decoder }

// newDecoder returns a decoder. Job files in HCL are read loosely: a number may
// be a string.
func newDecoder(from Source) *decoder {
	return &decoder{decode.Decoder{Loose: from == FromHCL, Defaults: blockDefaults, Ignored: obsolete}}
}

// job decodes a job over its defaults. Problems are in d; the job is complete
// even then, but must not be used.
func (d *decoder) job(tree decode.Tree) *berth.Job {
	j := &berth.Job{
		Region:      berth.DefaultRegion,
		Namespace:   berth.DefaultNamespace,
		Type:        berth.TypeService,
		Priority:    berth.DefaultPriority,
		Datacenters: []string{"*"},
		NodePool:    berth.DefaultNodePool,
	}
	// The type decides which defaults apply, so it is read before all else.
	if s, ok := decode.Lookup(tree, "Type").(string); ok && s != "" {
		j.Type = s // the defaults of blocks depend on it
	}
	if (j.Type == berth.TypeService || j.Type == berth.TypeSystem) && decode.Lookup(tree, "Update") == nil {
		u := defaultUpdate() // only max_parallel = 0 means all at once
		j.Update = &u
	}
	const name = "job"
	if decode.Lookup(tree, "Reschedule") != nil {
		j.Reschedule = defaultReschedule(j.Type)
	}
	if j.Type == berth.TypeStream {
		s := defaultStream()
		j.Stream = &s
	}
	d.Fill(j, tree, name, "TaskGroups")
	completeJob(j)
	d.Objects(decode.Lookup(tree, "TaskGroups"), name+".group", func(src decode.Tree, at string) {
		j.TaskGroups = append(j.TaskGroups, d.group(j, src, at))
	})
	return j
}

// completeJob sets the defaults of fields that were given as empty text.
func completeJob(j *berth.Job) {
	orDefault(&j.Region, berth.DefaultRegion)
	orDefault(&j.Namespace, berth.DefaultNamespace)
	orDefault(&j.Type, berth.TypeService)
	orDefault(&j.NodePool, berth.DefaultNodePool)
	orDefault(&j.Name, string(j.ID))
	if j.ParameterizedJob != nil {
		orDefault(&j.ParameterizedJob.Payload, berth.PayloadOptional)
	}
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}
	if j.Stream != nil {
		completeStream(j.Stream, j.ID)
	}
}

// job checks a whole job. It stops before the groups if there are too many, so
// that the list of problems stays short.
func (c *checker) job(j *berth.Job) {
	const at = "job"
	c.jobID(at+".id", string(j.ID))
	c.jobName(at+".name", j.Name)
	c.line(at+".namespace", j.Namespace, berth.MaxNameLen)
	if j.Namespace == berth.AllNamespaces {
		c.addf(at+".namespace", "must be one namespace, got %q", j.Namespace)
	}
	c.line(at+".region", j.Region, berth.MaxNameLen)
	c.line(at+".node_pool", j.NodePool, berth.MaxNameLen)
	c.oneOf(at+".type", j.Type, berth.JobTypes...)
	c.between(at+".priority", int64(j.Priority), berth.MinPriority, berth.TopPriority)
	// The scheduler compares datacenters with path.Match, so a pattern must
	// be valid for it.
	for _, dc := range j.Datacenters {
		if _, err := path.Match(dc, ""); err != nil || dc == "" {
			c.addf(at+".datacenters", "must be a datacenter or a glob pattern, got %q", berth.Clip(dc, 64))
		}
	}
	c.strings(at+".meta", j.Meta)
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
	c.launchers(at, j)
	c.unsupportedJob(at, j)

	// The groups come last: each can have many problems of its own.
	switch n := len(j.TaskGroups); {
	case n == 0 && c.part:
	case n == 0:
		c.addf(at+".group", "a job needs at least one group")
	case !c.atMost(at+".group", groupsLimit, n, "groups"):
		return
	}
	c.duplicates(at+".group", len(j.TaskGroups), func(i int) string { return j.TaskGroups[i].Name })
	for _, g := range j.TaskGroups {
		if c.ctx.Err() != nil {
			return
		}
		c.group(fmt.Sprintf("%s.group[%s]", at, berth.Clip(g.Name, 64)), j, g)
	}
	c.circles(at+".group", j)
	c.stream(at, j)
}

// jobID checks a job's ID. It may have line breaks and other oddities, as in
// Nomad; who shows it makes them harmless.
func (c *checker) jobID(at, id string) {
	switch {
	case id == "":
		c.addf(at, "is missing: want the ID of the job")
	case len(id) > berth.MaxJobIDLen:
		c.addf(at, "must be at most %d bytes, got %d", berth.MaxJobIDLen, len(id))
	case !utf8.ValidString(id):
		c.addf(at, "must be valid UTF-8, got %q", berth.Clip(id, 64))
	case strings.ContainsAny(id, " \x00"):
		c.addf(at, "must have no spaces and no NUL, got %q", id)
	}
}

// jobName checks a job's name, which is its ID unless the job has its own.
func (c *checker) jobName(at, name string) {
	switch {
	case len(name) > berth.MaxJobIDLen:
		c.addf(at, "must be at most %d bytes, got %d", berth.MaxJobIDLen, len(name))
	case !utf8.ValidString(name):
		c.addf(at, "must be valid UTF-8, got %q", berth.Clip(name, 64))
	case strings.ContainsRune(name, 0):
		c.addf(at, "must have no NUL, got %q", name)
	}
}

// hasType reports whether a job has one of the types. A job of an unknown type
// has each, since that problem is reported already and what follows from it is
// not.
func hasType(j *berth.Job, types ...string) bool {
	return slices.Contains(types, j.Type) || !slices.Contains(berth.JobTypes, j.Type)
}

// perNode refuses blocks that make no sense for a job that runs on every node:
// it does not choose nodes, and its instances do not move.
func (c *checker) perNode(at string, j *berth.Job) {
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
		gat := fmt.Sprintf("%s.group[%s]", at, berth.Clip(g.Name, 64))
		if g.Count > 1 && j.Type == berth.TypeSystem {
			c.addf(gat+".count", "must be 0 or 1 for jobs of type system, which run once on every node, got %d", g.Count)
		}
		no(len(g.Affinities) > 0, gat+".affinity")
		no(len(g.Spreads) > 0, gat+".spread")
		no(g.ReschedulePolicy != j.Reschedule && g.ReschedulePolicy.Enabled(), gat+".reschedule")
		no(g.Migrate != nil && g.Migrate != j.Migrate, gat+".migrate")
		if g.Update != j.Update {
			c.perNodeUpdate(gat+".update", j, g.Update)
		}
		for _, t := range g.Tasks {
			no(len(t.Affinities) > 0, fmt.Sprintf("%s.task[%s].affinity", gat, berth.Clip(t.Name, 64)))
		}
	}
}

// perNodeUpdate checks the update policy of a system or sysbatch job:
// max_parallel nodes at a time, with a pause of stagger; 0 is all at once.
func (c *checker) perNodeUpdate(at string, j *berth.Job, u *berth.UpdateStrategy) {
	switch {
	case u == nil:
	case j.Type == berth.TypeSysbatch:
		c.addf(at, "is not for jobs of type sysbatch, which each node runs once")
	default:
		c.between(at+".max_parallel", int64(u.MaxParallel), 0, berth.MaxCount)
		if u.MaxParallel > 0 {
			c.duration(at+".stagger", u.Stagger, time.Millisecond)
		}
	}
}
