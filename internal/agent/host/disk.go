package host

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/op"
)

// mount is a file system in the tree.
type mount struct {
	number string // of the device: 8:1
	device string // /dev/sda1
	point  string // where it is mounted
	kind   string // ext4
}

// readMounts returns what is mounted, oldest first.
func readMounts() ([]mount, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("mounts: %w", err)
	}
	return parseMounts(string(b)), nil
}

// parseMounts reads /proc/self/mountinfo.
func parseMounts(info string) (out []mount) {
	for line := range strings.Lines(info) {
		// 36 35 98:0 /root /mount options… - type source super-options
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if ok && len(f) >= 5 && len(g) >= 2 {
			out = append(out, mount{number: f[2], device: unescape(g[1]), point: unescape(f[4]), kind: g[0]})
		}
	}
	return out
}

// unescape undoes what the kernel does to blanks in names.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// mountOf returns the mount that a directory is on.
func mountOf(all []mount, dir string) (best mount) {
	for _, m := range all {
		inside := m.point == "/" || dir == m.point || strings.HasPrefix(dir, m.point+"/")
		if inside && len(m.point) >= len(best.point) {
			best = m
		}
	}
	return best
}

// onDevices returns one mount of each file system on a block device, the one
// with the shortest path, in order of path. virtual are the kinds of file systems
// without a device, and network ones.
func onDevices(all []mount, virtual map[string]bool) (out []mount) {
	best := map[string]mount{}
	for _, m := range all {
		if virtual[m.kind] || !strings.HasPrefix(m.device, "/dev/") {
			continue
		}
		if b, ok := best[m.number]; !ok || len(m.point) < len(b.point) {
			best[m.number] = m
		}
	}
	for _, m := range best {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b mount) int { return strings.Compare(a.point, b.point) })
	return out
}

// virtualKinds reads /proc/filesystems, in which kinds without a device are
// marked.
func virtualKinds(filesystems string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(filesystems) {
		if kind, ok := strings.CutPrefix(line, "nodev\t"); ok {
			out[strings.TrimSpace(kind)] = true
		}
	}
	return out
}

// disks measures the file systems on block devices. One that cannot be asked,
// such as one below a directory that is hidden, is left out.
func disks() ([]op.HostDisk, error) {
	kinds, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return nil, fmt.Errorf("file systems: %w", err)
	}
	all, err := readMounts()
	if err != nil {
		return nil, err
	}
	out := []op.HostDisk{}
	for _, m := range onDevices(all, virtualKinds(string(kinds))) {
		if d, err := diskOf(m, m.point); err == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// diskOf measures the file system of a path.
func diskOf(m mount, path string) (op.HostDisk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return op.HostDisk{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return figures(m, uint64(st.Bsize), st.Blocks, st.Bfree, st.Bavail, st.Files, st.Ffree), nil
}

// figures counts as df does: what only root may take is neither used nor
// available.
func figures(m mount, block, blocks, free, available, files, freeFiles uint64) op.HostDisk {
	d := op.HostDisk{Device: m.device, Mountpoint: m.point, Size: blocks * block, Used: (blocks - min(free, blocks)) * block, Available: available * block}
	if all := d.Used + d.Available; all > 0 {
		d.UsedPercent = 100 * float64(d.Used) / float64(all)
	}
	if files > 0 {
		d.InodesUsedPercent = 100 * float64(files-min(freeFiles, files)) / float64(files)
	}
	return d
}
