package task

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/cpuset"
	"berth/internal/driverconfig"
	"berth/op"
)

// hostVariables are the variables of the agent's own environment that tasks
// get. It is a list of what is allowed: a list of what is not would leak the
// next secret that somebody puts there (S-23).
var hostVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ"}

// HostEnv picks from an environment what tasks may see of it.
func HostEnv(env []string) map[string]string {
	out := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(hostVariables, name) || strings.HasPrefix(name, "LC_") {
			out[name] = value
		}
	}
	return out
}

// Place is where a task runs, as its environment tells it.
type Place struct {
	AllocDir string // the allocation's directory, absolute
	Node     *berth.Node
	Region   string
	Host     map[string]string         // see HostEnv
	Cgroup   string                    // parent of the tasks' cgroups, "" for none
	Stream   map[string]string         // what a processing element finds its connections by; nil for others
	Network  *berth.AllocNetworkStatus // the allocation's own address; nil if it has none
	// Isolation is how far the task's driver keeps it from the machine; "" is
	// not at all. It decides where the task finds its directories.
	Isolation driver.Isolation
	Secrets   map[string]string // by name and key, as in ${secret.name.key}
	MaxKill   time.Duration     // the longest kill_timeout that this machine grants; 0 is any
	// SecretsInMemory is whether the directory of secrets can be kept in memory.
	SecretsInMemory bool
}

// killTimeout is how long a task may take to end: what the job says, or what
// the machine grants if that is less.
func (p *Place) killTimeout(t *berth.Task) time.Duration {
	if p.MaxKill > 0 {
		return min(t.KillTimeout, p.MaxKill)
	}
	return t.KillTimeout
}

// TaskDir returns the task's own directory.
func (p *Place) TaskDir(task string) string { return filepath.Join(p.AllocDir, task) }

// directories returns the variables of the directories of a task: where the
// task itself finds them. An image need not have a directory for temporary
// files of this name, so nothing is said of it there.
func (p *Place) directories(task string) map[string]string {
	switch p.Isolation {
	case driver.Isolated:
		return map[string]string{"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets", "TMPDIR": "/tmp"}
	case driver.ImageIsolation:
		return map[string]string{"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets"}
	}
	dir := p.TaskDir(task)
	return map[string]string{
		"NOMAD_ALLOC_DIR": filepath.Join(p.AllocDir, "alloc"), "NOMAD_TASK_DIR": filepath.Join(dir, "local"),
		"NOMAD_SECRETS_DIR": filepath.Join(dir, "secrets"), "TMPDIR": filepath.Join(dir, "tmp"),
	}
}

// Environment returns what a task finds in its environment, as publicly
// documented for Nomad: the host's allowed variables, then NOMAD_* and, over
// the former but not the latter, what the job says, interpolated.
func Environment(a *op.Alloc, t *berth.Task, p *Place) map[string]string {
	group := a.Job.Group(a.TaskGroup)
	own := nomadVariables(a, group, t, p)
	portVariables(own, a, group, t, p)
	maps.Copy(own, p.Stream)
	// Metadata and the job's env may refer to the variables so far, not to each
	// other.
	names := Names{Node: p.Node, Region: p.Region, Env: own, Secrets: p.Secrets}
	for k, v := range meta(a.Job, group, t) {
		v = names.Replace(v)
		own["NOMAD_META_"+strings.ToUpper(variable(k))] = v
		own["NOMAD_META_"+variable(k)] = v
	}
	out := map[string]string{}
	if p.Isolation != driver.ImageIsolation { // an image has a PATH and a HOME of its own
		maps.Copy(out, p.Host)
	}
	for k, v := range t.Env {
		out[k] = names.Replace(v)
	}
	dirs := p.directories(t.Name)
	if _, ok := t.Env["TMPDIR"]; !ok && dirs["TMPDIR"] != "" {
		out["TMPDIR"] = dirs["TMPDIR"]
	}
	// Last, so that a job cannot replace what the agent promises a task.
	maps.Copy(out, own)
	return out
}

// nomadVariables returns the NOMAD_ variables of the task, except those of
// ports and metadata. Memory is in MiB, CPU in MHz: what servers allocated
// comes before what the job asks for.
func nomadVariables(a *op.Alloc, group *berth.TaskGroup, t *berth.Task, p *Place) map[string]string {
	cpu, memory := int64(t.Resources.CPU), int64(t.Resources.MemoryMB)
	memoryMax := int64(t.Resources.MemoryMaxMB)
	if given := given(a, t.Name); given != nil {
		cpu, memory, memoryMax = given.Cpu.CpuShares, given.Memory.MemoryMB, given.Memory.MemoryMaxMB
	}
	dirs := p.directories(t.Name)
	out := map[string]string{
		"NOMAD_ALLOC_DIR":      dirs["NOMAD_ALLOC_DIR"],
		"NOMAD_TASK_DIR":       dirs["NOMAD_TASK_DIR"],
		"NOMAD_SECRETS_DIR":    dirs["NOMAD_SECRETS_DIR"],
		"NOMAD_MEMORY_LIMIT":   strconv.FormatInt(memory, 10),
		"NOMAD_CPU_LIMIT":      strconv.FormatInt(cpu, 10),
		"NOMAD_ALLOC_ID":       a.ID.String(),
		"NOMAD_SHORT_ALLOC_ID": a.ID.Short(),
		"NOMAD_ALLOC_NAME":     a.Name,
		"NOMAD_ALLOC_INDEX":    allocIndex(a.Name),
		"NOMAD_TASK_NAME":      t.Name,
		"NOMAD_GROUP_NAME":     group.Name,
		"NOMAD_JOB_ID":         string(a.Job.ID),
		"NOMAD_JOB_NAME":       a.Job.Name,
		"NOMAD_NAMESPACE":      a.Namespace,
		"NOMAD_REGION":         p.Region,
	}
	if p.Node != nil {
		out["NOMAD_DC"] = p.Node.Datacenter
	}
	if memoryMax > 0 && memoryMax != memory {
		out["NOMAD_MEMORY_MAX_LIMIT"] = strconv.FormatInt(memoryMax, 10)
	}
	if cores := grantedCores(a, t.Name); len(cores) > 0 {
		out["NOMAD_CPU_CORES"] = cpuset.Format(cores)
	}
	if a.Job.ParentID != "" {
		out["NOMAD_JOB_PARENT_ID"] = string(a.Job.ParentID)
	}
	if p.Cgroup != "" {
		out["NOMAD_PARENT_CGROUP"] = p.Cgroup
	}
	return out
}

// given returns what the task was given of its node, nil if servers do not say.
func given(a *op.Alloc, task string) *op.AllocatedTask {
	if a.AllocatedResources == nil {
		return nil
	}
	return a.AllocatedResources.Tasks[task]
}

// grantedCores returns the cores that are the task's own.
func grantedCores(a *op.Alloc, task string) []uint16 {
	if t := given(a, task); t != nil {
		return t.Cpu.ReservedCores
	}
	return nil
}

// allocIndex returns the number in job.group[number].
func allocIndex(name string) string {
	name = strings.TrimSuffix(name, "]")
	if i := strings.LastIndexByte(name, '['); i >= 0 {
		return name[i+1:]
	}
	return "0"
}

// portVariables tells of the ports by label, and by task and label for each
// task of the group. By the plain label alone the task finds its own before
// those of the group. Where a label or a task's name is not fit for a shell's
// variable, it is there in a form that is, too.
func portVariables(out map[string]string, a *op.Alloc, group *berth.TaskGroup, t *berth.Task, p *Place) {
	if a.AllocatedResources == nil {
		return
	}
	set := func(m *berth.PortMapping, label string) {
		for _, l := range []string{label, variable(label)} {
			portVariable(out, m, l, p)
		}
	}
	// What two could mean is the plain label, so those come last.
	for _, m := range a.AllocatedResources.Shared.Ports {
		for _, other := range group.Tasks {
			set(&m, other.Name+"_"+m.Label)
		}
	}
	for _, other := range group.Tasks {
		for _, m := range ownPorts(a, other) {
			set(&m, other.Name+"_"+m.Label)
		}
	}
	for _, m := range a.AllocatedResources.Shared.Ports {
		set(&m, m.Label)
	}
	for _, m := range ownPorts(a, t) {
		set(&m, m.Label)
	}
}

// portVariable sets the variables of one port by its label.
func portVariable(out map[string]string, m *berth.PortMapping, l string, p *Place) {
	ip := m.HostIP
	if ip == "" && p.Node != nil && p.Node.NodeResources != nil {
		ip = p.Node.HostAddress()
	}
	host := strconv.Itoa(m.Value)
	port := host
	if m.To > 0 {
		port = strconv.Itoa(m.To)
	}
	addr := port
	if own := p.Network; own != nil {
		addr = host // where others reach it
		out["NOMAD_ALLOC_INTERFACE_"+l] = own.InterfaceName
		out["NOMAD_ALLOC_IP_"+l] = own.Address
		out["NOMAD_ALLOC_PORT_"+l] = port
		out["NOMAD_ALLOC_ADDR_"+l] = net.JoinHostPort(own.Address, port)
	}
	out["NOMAD_IP_"+l] = ip
	out["NOMAD_PORT_"+l] = port
	out["NOMAD_ADDR_"+l] = net.JoinHostPort(ip, addr)
	out["NOMAD_HOST_IP_"+l] = ip
	out["NOMAD_HOST_PORT_"+l] = host
	out["NOMAD_HOST_ADDR_"+l] = net.JoinHostPort(ip, host)
}

// ownPorts returns the ports that a task asked for itself. The port_map of the
// driver docker, which came with that form, says where it listens inside.
func ownPorts(a *op.Alloc, t *berth.Task) []berth.PortMapping {
	ports := given(a, t.Name).Ports()
	if len(ports) == 0 || t.Driver != driverconfig.Docker.Driver {
		return ports
	}
	config, err := driverconfig.Docker.Read(t.Config)
	if err != nil { // the driver says so
		return ports
	}
	for label, to := range config.Map("port_map") {
		for i := range ports {
			if n, err := strconv.Atoi(to); err == nil && ports[i].Label == label {
				ports[i].To = n
			}
		}
	}
	return ports
}

// meta returns the job's metadata as the task sees it: the inner over the
// outer.
func meta(j *berth.Job, g *berth.TaskGroup, t *berth.Task) map[string]string {
	out := map[string]string{}
	maps.Copy(out, j.Meta)
	maps.Copy(out, g.Meta)
	maps.Copy(out, t.Meta)
	return out
}

// variable makes a text fit to be part of the name of a variable.
func variable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// list turns an environment into name=value, in order of name.
func list(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// OwnEnv is what tasks may see of this process's environment.
func OwnEnv() map[string]string { return HostEnv(os.Environ()) }
