package task

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/disk"
	"berth/internal/agent/driver"
	"berth/internal/agent/logs"
	"berth/internal/agent/secretdir"
	"berth/internal/agent/supervise"
	"berth/internal/saferoot"
	"berth/op"
)

// hooks are what is done before a task starts, in this order, every time. A
// hook that fails ends the attempt; [driver.Recoverable] errors are worth
// another. What they do can be done again: the agent may be killed in between.
var hooks = []struct {
	name string
	run  func(context.Context, *attempt) error
}{
	{"names", checkNames},
	{"blocks", checkBuilt},
	{"granted", checkGranted},
	{"volumes", checkVolumes},
	{"network", joinNetwork},
	{"secrets", getSecrets},
	{"environment", makeEnv},
	{"user", checkUser},
	{"devices", reserveDevices},
	{"plugin", makePlugin},
	{"disk", takeDisk},
	{"directories", makeDirs},
	{"api", makeAPI},
	{"payload", writePayload},
	{"identities", makeIdentities},
	{"artifacts", fetchArtifacts},
	{"templates", renderTemplates},
	{"config", makeConfig},
	{"csi volumes", mountCSI},
	{"mounts", makeMounts},
	{"logs", makeLogs},
}

// attempt is one start on its way.
type attempt struct {
	alloc  *op.Alloc
	task   *berth.Task
	place  *Place
	driver driver.Driver // nil if the agent has none of that name

	network func(context.Context) (*driver.Network, *berth.AllocNetworkStatus, error) // see Config.Network
	sign    Signer                                                                    // nil if there are no servers
	openAPI func() error                                                              // makes the socket of the Task API; nil: there is none

	reserve Reserver                                                       // nil: the agent has no devices
	disk    func(context.Context, func(typ, message string)) error         // see Config.Disk
	volumes func(context.Context, func(string)) (map[string]string, error) // see Config.Volumes
	csi     map[string]string                                              // directories of CSI volumes by the name of the block
	plugins Plugins
	inputs  *Inputs
	doing   func(typ, message string, waits ...berth.TaskWait) // tells in the task's history what is being done and waited for
	state   State                                              // of the task when the attempt began

	names      Names
	out        *driver.Task
	identities map[string]Validity // by name
	rendered   []string            // hashes of the texts of templates, in their order
	fetched    bool                // artifacts were fetched
	reserved   []driver.Mount      // that devices need
}

// prepare runs the hooks and returns what the driver is to start.
func (at *attempt) prepare(ctx context.Context) error {
	for _, h := range hooks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.run(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// checkNames refuses names that would be other directories than they seem
// (S-24). Servers refuse them too; this agent does not take their word for it.
func checkNames(_ context.Context, at *attempt) error {
	seen := map[string]string{}
	for _, t := range at.alloc.Job.Group(at.alloc.TaskGroup).Tasks {
		if err := CheckName(t.Name); err != nil {
			return err
		}
		// On a file system that ignores case, the two would share a directory.
		folded := strings.ToLower(t.Name)
		if other, ok := seen[folded]; ok {
			return berth.Errorf(berth.Invalid, "tasks %q and %q of a group differ only in case", other, t.Name)
		}
		seen[folded] = t.Name
	}
	return nil
}

// reservedNames are the other directories of an allocation.
var reservedNames = []string{"alloc", ".fetch", disk.Staging, disk.Done, supervise.ControlDir, ".", ".."}

// CheckName refuses what cannot be a task's name.
func CheckName(s string) error {
	if err := saferoot.Name(s); err != nil {
		return berth.Errorf(berth.Invalid, "task name: %w", err)
	}
	if len(s) > berth.MaxNameLen {
		return berth.Errorf(berth.Invalid, "task name: %d bytes are too long: at most %d", len(s), berth.MaxNameLen)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(s) != s {
		return berth.Errorf(berth.Invalid, "task name %q is not plain ASCII, or begins or ends with a space", s)
	}
	for _, r := range reservedNames {
		if strings.EqualFold(s, r) {
			return berth.Errorf(berth.Invalid, "task name %q is reserved", s)
		}
	}
	return nil
}

// checkBuilt refuses by name what this agent would otherwise leave out.
func checkBuilt(_ context.Context, at *attempt) error {
	if at.driver == nil {
		return berth.Errorf(berth.Invalid, "driver %q is not one of this agent's", at.task.Driver)
	}
	t := at.task
	var ps berth.Problems
	for name, present := range map[string]bool{
		"vault": t.Vault != nil, "consul": t.Consul != nil,
	} {
		if present {
			ps.Addf("task["+t.Name+"]."+name, "is not supported by this agent")
		}
	}
	group := at.alloc.Job.Group(at.alloc.TaskGroup)
	for _, n := range group.Networks {
		mode, _, _ := strings.Cut(n.Mode, "/")
		if mode != "" && mode != berth.NetworkHost && !slices.Contains(at.driver.Capabilities().Networks, mode) {
			ps.Addf("group["+group.Name+"].network.mode", "%q is not supported by the driver %s of task %q", n.Mode, t.Driver, t.Name)
		}
	}
	return ps.Err()
}

// checkGranted refuses a task whose node cannot give it what servers say that
// it has of it.
func checkGranted(_ context.Context, at *attempt) error {
	var ps berth.Problems
	t := at.task
	where := "task[" + t.Name + "]."
	at.checkDevices(&ps, where)
	if n := len(at.out.Cores); t.Resources.Cores > 0 && n != t.Resources.Cores {
		ps.Addf(where+"resources.cores", "the task needs %d, and servers gave it %d", t.Resources.Cores, n)
	}
	return ps.Err()
}

// joinNetwork makes the allocation's network, unless it is there.
func joinNetwork(ctx context.Context, at *attempt) error {
	if at.network == nil {
		return nil
	}
	n, status, err := at.network(ctx)
	if err != nil {
		return err
	}
	place := *at.place
	place.Network = status
	at.place, at.out.Network = &place, n
	return nil
}

// takeDisk gives the allocation the data of the one that it replaces.
func takeDisk(ctx context.Context, at *attempt) error {
	if at.disk == nil {
		return nil
	}
	if err := at.disk(ctx, func(typ, message string) { at.doing(typ, message) }); err != nil {
		return onDisk(err)
	}
	return nil
}

// makeDirs makes the task's directories. A task with a user of its own owns
// them; one without runs as the agent.
func makeDirs(_ context.Context, at *attempt) error {
	root, name := at.out.AllocDir, at.task.Name
	if err := MakeAllocDirs(root); err != nil {
		return onDisk(err)
	}
	own, local, private := fs.FileMode(0o711), fs.FileMode(0o755), fs.FileMode(0o700)
	if at.ofImage() { // its users are not the host's, which come no further than the task's directory
		own, local, private = 0o700, 0o777, 0o777
	}
	if err := root.Mkdir(name, own); err != nil {
		return onDisk(err)
	}
	uid, gid, other := lookupUser(at.out.User)
	if other {
		if err := passes(root.Path(), at.out.User, uid); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		name string
		perm fs.FileMode
	}{{"local", local}, {secretdir.Name, private}, {"tmp", private}} {
		p := name + "/" + d.name
		if err := root.Mkdir(p, d.perm); err != nil {
			return onDisk(err)
		}
		if d.name == secretdir.Name && at.place.SecretsInMemory && seesMounts(at.driver, at.task.Config) {
			if err := secretdir.Mount(root, p, at.task.Resources.SecretsMB, d.perm); err != nil {
				return driver.Recoverable(err)
			}
		}
		if other && !at.ofImage() {
			if err := root.Chown(p, uid, gid); err != nil {
				return onDisk(err)
			}
		}
	}
	return nil
}

// seesMounts reports whether a task of this config sees what the agent mounts in its
// directory. Drivers whose tasks are not the agent's own processes may know better.
func seesMounts(d driver.Driver, config map[string]any) bool {
	x, ok := driver.As[interface{ SeesMounts(map[string]any) bool }](d)
	return !ok || x.SeesMounts(config)
}

// passes returns nil if a user may pass through all directories above the
// allocation's, or an error that names the one that lets it not.
func passes(dir, name string, uid int) error {
	for at := dir; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err != nil {
			return err
		}
		need := fs.FileMode(0o011) // the user may have other groups
		if of, ok := st.Sys().(*syscall.Stat_t); ok && int(of.Uid) == uid {
			need = 0o100
		}
		if st.Mode()&need == 0 {
			return berth.Errorf(berth.Denied, "user: %q cannot get to the task's directory, because %s (mode %04o) does not let it pass; to allow that: chmod o+x %s",
				name, at, st.Mode().Perm(), at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// MakeAllocDirs makes the directories that an allocation's tasks share.
func MakeAllocDirs(root *saferoot.Root) error {
	return errors.Join(
		root.Mkdir("alloc", 0o755),
		root.Mkdir("alloc/data", 0o777),
		root.Mkdir(logs.Dir, 0o755),
		root.Mkdir("alloc/tmp", 0o777|fs.ModeSticky),
	)
}

// onDisk marks errors that may pass: a full disk is emptied.
func onDisk(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return driver.Recoverable(err)
	}
	return err
}

// lookupUser returns whom the task's directories are given to, if the agent
// can give them away.
func lookupUser(name string) (uid, gid int, ok bool) {
	if name == "" || os.Geteuid() != 0 {
		return 0, 0, false
	}
	u, err := user.Lookup(name)
	if err != nil {
		if u, err = user.LookupId(name); err != nil {
			return 0, 0, false // the driver says so
		}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, err1 == nil && err2 == nil && uid != 0
}

// makeEnv makes the environment, which later hooks interpolate with. It refuses
// what execve would cut or misread.
func makeEnv(_ context.Context, at *attempt) error {
	env := Environment(at.alloc, at.task, at.place)
	at.names.Secrets = at.place.Secrets
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return berth.Errorf(berth.Invalid, "env: %q cannot be an environment variable", k)
		}
	}
	at.names.Env = env
	at.out.Env = list(env)
	return nil
}

// checkUser interpolates the user and sets USER, LOGNAME and HOME for it,
// unless the job sets them. Whether the user exists is for the driver to say.
func checkUser(_ context.Context, at *attempt) error {
	u := at.names.Replace(at.task.User)
	if len(u) > berth.MaxNameLen || strings.Contains(u, "${") || strings.ContainsFunc(u, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' || r == '/' }) {
		return berth.Errorf(berth.Invalid, "user: %q is not the name or number of a user", u)
	}
	at.out.User = u
	if who, err := user.Lookup(u); u != "" && err == nil && !at.ofImage() {
		// The agent's own would lead the task to a directory it cannot read.
		for k, v := range map[string]string{"USER": who.Username, "LOGNAME": who.Username, "HOME": who.HomeDir} {
			if _, ok := at.task.Env[k]; !ok {
				at.names.Env[k] = v
			}
		}
		at.out.Env = list(at.names.Env)
	}
	return nil
}

// limits returns what the task may use of the node: what servers say that it was
// given there. They give memory_max only while the cluster allows it.
func limits(a *op.Alloc, t *berth.Task, n *berth.Node) driver.Limits {
	const mib = 1 << 20
	var l driver.Limits
	if n != nil && n.NodeResources != nil {
		l.CPUTotal = n.NodeResources.Cpu.CpuShares
	}
	if g := given(a, t.Name); g != nil {
		l.CPUShares, l.Memory, l.MemoryMax = g.Cpu.CpuShares, g.Memory.MemoryMB*mib, max(0, g.Memory.MemoryMaxMB)*mib
	}
	return l
}

// makeConfig interpolates the driver's config. The driver reads it strictly,
// so what interpolation made of it is checked again (C37).
func makeConfig(_ context.Context, at *attempt) error {
	at.out.Config, _ = at.names.Value(at.task.Config).(map[string]any)
	return nil
}

// makeLogs sets how much of the task's output is kept: the number of files and
// the size of each in bytes, both at least one unit.
func makeLogs(_ context.Context, at *attempt) error {
	l := at.task.LogConfig
	at.out.Logs = supervise.Logs{Disabled: l.Disabled, MaxFiles: max(1, l.MaxFiles), MaxSize: int64(max(1, l.MaxFileSizeMB)) << 20}
	return nil
}
