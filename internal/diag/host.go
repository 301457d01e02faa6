package diag

import (
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Host is the machine as a process sees it.
type Host struct {
	OS          string // name and release of the kernel, and the machine's type
	Network     []map[string]string
	ResolvConf  string
	Hosts       string            // the contents of /etc/hosts
	Environment map[string]string // of the process; most values are hidden
	Disk        map[string]Disk   // by mount point
}

// Disk is a file system, in MiB.
type Disk struct{ DiskMB, UsedMB int64 }

// Hidden stands for a value that may be a secret.
const Hidden = "<redacted>"

// shown are the variables whose values are no secrets.
var shown = []string{"HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TZ", "USER", "GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT"}

// ReadHost returns what can be read; what cannot is empty.
func ReadHost() Host {
	h := Host{OS: system(), ResolvConf: file("/etc/resolv.conf"), Hosts: file("/etc/hosts"), Environment: map[string]string{}, Disk: disks()}
	if all, err := net.Interfaces(); err == nil {
		for _, i := range all {
			row := map[string]string{"name": i.Name, "flags": i.Flags.String(), "mac": i.HardwareAddr.String()}
			if addrs, err := i.Addrs(); err == nil {
				var list []string
				for _, a := range addrs {
					list = append(list, a.String())
				}
				row["address"] = strings.Join(list, ", ")
			}
			h.Network = append(h.Network, row)
		}
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		if !slices.Contains(shown, name) && value != "" {
			value = Hidden
		}
		h.Environment[name] = value
	}
	return h
}

// system describes the kernel.
func system() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return ""
	}
	return strings.Join([]string{chars(u.Sysname), chars(u.Nodename), chars(u.Release), chars(u.Version), chars(u.Machine)}, " ")
}

// chars returns a text of C.
func chars[T int8 | uint8](c [65]T) string {
	var b strings.Builder
	for _, x := range c {
		if x == 0 {
			break
		}
		b.WriteByte(byte(x))
	}
	return b.String()
}

// file returns the beginning of a small file, "" if it cannot be read.
func file(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	const most = 64 << 10
	return string(text[:min(len(text), most)])
}

// disks returns the file systems that are on devices.
func disks() map[string]Disk {
	out := map[string]Disk{}
	for line := range strings.SplitSeq(file("/proc/self/mounts"), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[0], "/dev/") && f[1] != "/" {
			continue
		}
		var s syscall.Statfs_t
		if syscall.Statfs(f[1], &s) != nil || s.Blocks == 0 {
			continue
		}
		size := uint64(s.Bsize)
		out[f[1]] = Disk{DiskMB: int64(s.Blocks * size >> 20), UsedMB: int64((s.Blocks - s.Bfree) * size >> 20)}
	}
	return out
}
