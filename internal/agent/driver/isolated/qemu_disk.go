package isolated

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/supervise"
)

// disk is the image of a machine.
type disk struct {
	path    string // in the task's file tree
	name    string // in the allocation's directory; "" if it is outside
	format  string // as QEMU names it
	outside bool   // it is another of the host's, and is not changed
}

// image finds the image of a task. A relative path is one of the task's
// directory; an absolute one that of the task's file tree, or of the host if the
// agent's configuration allows it. No link leads out of these.
func (q *Qemu) image(t *driver.Task, name string) (*disk, error) {
	if strings.ContainsRune(name, 0) {
		return nil, berth.Errorf(berth.Invalid, "config.image_path: %q has a zero byte", berth.Clip(name, 200))
	}
	task := filepath.Base(t.Dir)
	if !path.IsAbs(name) {
		if !filepath.IsLocal(name) {
			return nil, berth.Errorf(berth.Invalid, "config.image_path: %q leads out of the task's directory", berth.Clip(name, 200))
		}
		for _, p := range []string{path.Join("local", name), path.Clean(name)} {
			if d, err := inside(t, path.Join(task, p), "/"+p); d != nil || err != nil {
				return d, err
			}
		}
		return nil, berth.Errorf(berth.Invalid, "config.image_path: there is no %q in the task's directory", berth.Clip(name, 200))
	}
	name = path.Clean(name)
	if rest, ok := strings.CutPrefix(name, "/alloc/"); ok {
		return present(t, "alloc/"+rest, name)
	}
	for _, dir := range []string{"/local/", "/secrets/", "/tmp/"} {
		if strings.HasPrefix(name, dir) {
			if d, err := inside(t, task+name, name); d != nil || err != nil {
				return d, err
			}
		}
	}
	return q.allowed(name)
}

// present is as inside, with an error if there is no such file.
func present(t *driver.Task, name, place string) (*disk, error) {
	d, err := inside(t, name, place)
	if d == nil && err == nil {
		err = berth.Errorf(berth.Invalid, "config.image_path: there is no %q in the allocation's directory", berth.Clip(place, 200))
	}
	return d, err
}

// inside returns the image at a path of the allocation's directory; nil if no file
// is there. place is its path in the task's file tree.
func inside(t *driver.Task, name, place string) (*disk, error) {
	f, err := t.AllocDir.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "config.image_path: %q: %w", berth.Clip(place, 200), err)
	}
	defer f.Close()
	format, err := diskFormat(f)
	return &disk{path: place, name: name, format: format}, err
}

// allowed returns an image of the host that the agent's configuration allows.
func (q *Qemu) allowed(name string) (*disk, error) {
	real, err := filepath.EvalSymlinks(name)
	for _, dir := range q.c.ImagePaths {
		top, e := filepath.EvalSymlinks(dir)
		if err != nil || e != nil || !strings.HasPrefix(real, top+"/") {
			continue
		}
		f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "config.image_path: %w", err)
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
			return nil, berth.Errorf(berth.Invalid, "config.image_path: %q is not a regular file", berth.Clip(name, 200))
		}
		format, err := diskFormat(f)
		return &disk{path: real, format: format, outside: true}, err
	}
	return nil, berth.Errorf(berth.Denied, "config.image_path: %q is neither in the task's directory nor in one of image_paths of plugin \"qemu\" on this node", berth.Clip(name, 200))
}

// diskFormat returns the format of an image by how it begins. Anything that is
// not recognized is the plain content of a disk.
func diskFormat(f io.Reader) (string, error) {
	head := make([]byte, 68)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", berth.Errorf(berth.Invalid, "config.image_path: %w", err)
	}
	head = head[:n]
	for magic, format := range map[string]string{"QFI\xfb": "qcow2", "KDMV": "vmdk", "vhdxfile": "vhdx", "conectix": "vpc", "QED\x00": "qed"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return format, nil
		}
	}
	if n == 68 && bytes.Equal(head[64:], []byte("\x7f\x10\xda\xbe")) {
		return "vdi", nil
	}
	return "raw", nil
}

// own gives an image in the task's own directory to its user, who may not be the
// one that it was fetched by.
func (d *disk) own(t *driver.Task, who *supervise.User) error {
	if !strings.HasPrefix(d.name, filepath.Base(t.Dir)+"/") {
		return nil
	}
	f, err := t.AllocDir.OpenFile(d.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	// A second name may be outside.
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || sys.Nlink != 1 {
		return nil
	}
	return f.Chown(int(who.UID), int(who.GID))
}

// forwards returns the option that has ports of the group lead to ports of the
// machine, "" for none.
func forwards(t *driver.Task, ports map[string]string) (out string, err error) {
	for _, label := range slices.Sorted(maps.Keys(ports)) {
		i := slices.IndexFunc(t.Ports, func(p berth.PortMapping) bool { return p.Label == label })
		if i < 0 {
			return "", berth.Errorf(berth.Invalid, "config.port_map: the group's network has no port %q", berth.Clip(label, 64))
		}
		p := t.Ports[i]
		if a, err := netip.ParseAddr(p.HostIP); p.HostIP != "" && (err != nil || !a.Is4()) {
			return "", berth.Errorf(berth.Invalid, "config.port_map: the address of port %q must be an IPv4 address, got %q", berth.Clip(label, 64), p.HostIP)
		}
		for _, protocol := range []string{"tcp", "udp"} {
			out += ",hostfwd=" + protocol + ":" + p.HostIP + ":" + strconv.Itoa(p.Value) + "-:" + ports[label]
		}
	}
	return out, nil
}
