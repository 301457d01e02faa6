package isolate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What is in /dev, /etc, /proc and /sys. All of this works on file systems that
// were just mounted, so no path is a task's doing.

// deviceNodes are the devices that each task has. They hold nothing of the
// machine's.
var deviceNodes = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// devices fills /dev.
func devices(s *Spec) error {
	old := unix.Umask(0)
	defer unix.Umask(old)
	for _, d := range deviceNodes {
		if err := unix.Mknod("/dev/"+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make /dev/%s: %w", d.name, err)
		}
	}
	for link, to := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(to, "/dev/"+link); err != nil {
			return err
		}
	}
	const quiet = unix.MS_NOSUID | unix.MS_NOEXEC
	mounts := []struct {
		fstype, path string
		flags        uintptr
		data         string
	}{
		{"devpts", "/dev/pts", quiet, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777,size=64m"},
		{"mqueue", "/dev/mqueue", quiet | unix.MS_NODEV, ""},
	}
	for _, m := range mounts {
		if err := os.Mkdir(m.path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.fstype, m.path, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.path, err)
		}
	}
	return nil
}

// etc writes the files of /etc that are not the host's.
func etc(s *Spec) error {
	for name, text := range s.Files {
		path := "/etc/" + name
		// The host's may be a link to where a service of the host writes it.
		if to, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join("/etc", to)
			}
			path = to
		}
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if errors.Is(err, unix.EROFS) { // the host's /etc: mount over its file
			own := "/run/" + name
			if err = os.WriteFile(own, []byte(text), 0o644); err == nil {
				err = unix.Mount(own, path, "", unix.MS_BIND, "")
			}
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if _, err := os.Lstat("/etc/mtab"); errors.Is(err, fs.ErrNotExist) {
		_ = os.Symlink("/proc/self/mounts", "/etc/mtab") // a host's /etc does without
	}
	if err := unix.Mount("", "/etc", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("make /etc read-only: %w", err)
	}
	return nil
}

// masked are the paths that reveal or change the machine. They are empty for a
// task.
var masked = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/slabinfo", "/proc/timer_list", "/proc/timer_stats",
	"/proc/vmallocinfo", "/proc/modules", "/proc/config.gz", "/proc/mtd", "/proc/dynamic_debug", "/proc/iomem", "/proc/ioports",
	"/sys/firmware", "/sys/kernel/vmcoreinfo", "/sys/kernel/notes", "/sys/devices/virtual/powercap", "/sys/module", "/sys/power", "/sys/hypervisor",
}

// readOnly are the paths by which root could change the machine.
var readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// seal hides and protects parts of /proc and /sys, and shows the task its own
// cgroups.
func seal(groups []cgroupMount) error {
	showCgroups(groups)
	for _, p := range masked {
		st, err := os.Lstat(p)
		if err != nil {
			continue // this kernel does not have it
		}
		if st.IsDir() {
			err = unix.Mount("tmpfs", p, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=0,mode=555")
		} else {
			err = unix.Mount("/dev/null", p, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("mask %s: %w", p, err)
		}
	}
	for _, p := range readOnly {
		err := unix.Mount(p, p, "", unix.MS_BIND|unix.MS_REC, "")
		if err == unix.ENOENT {
			continue
		}
		if err == nil {
			err = unix.Mount("", p, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}
		if err != nil {
			return fmt.Errorf("make %s read-only: %w", p, err)
		}
	}
	return nil
}

// cgroupMount is a hierarchy that the host has mounted.
type cgroupMount struct{ fstype, name, controllers string }

// cgroupMounts reads the host's hierarchies below /sys/fs/cgroup.
func cgroupMounts() (out []cgroupMount) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 || g[0] != "cgroup" && g[0] != "cgroup2" {
			continue
		}
		name, ok := strings.CutPrefix(f[4], "/sys/fs/cgroup")
		if !ok || strings.Count(name, "/") > 1 {
			continue
		}
		opts := slices.DeleteFunc(strings.Split(g[2], ","), func(o string) bool { return o == "rw" || o == "ro" })
		out = append(out, cgroupMount{g[0], strings.TrimPrefix(name, "/"), strings.Join(opts, ",")})
	}
	return out
}

// showCgroups mounts the hierarchies read-only, as seen from the task's group:
// runtimes such as Java's read their limits there. It is an offer: a task does
// without what cannot be mounted.
func showCgroups(all []cgroupMount) {
	const quiet = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const dir = "/sys/fs/cgroup"
	if len(all) == 1 && all[0].fstype == "cgroup2" && all[0].name == "" {
		_ = unix.Mount("cgroup2", dir, "cgroup2", quiet, "")
		return
	}
	if unix.Mount("tmpfs", dir, "tmpfs", quiet&^unix.MS_RDONLY, "mode=755,size=64k") != nil {
		return
	}
	for _, m := range all {
		at := filepath.Join(dir, m.name)
		if m.name == "" || m.fstype == "cgroup2" || os.Mkdir(at, 0o755) != nil {
			continue
		}
		_ = unix.Mount("cgroup", at, "cgroup", quiet, m.controllers)
	}
	_ = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|quiet, "")
}
