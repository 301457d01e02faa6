package hostvolume

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/internal/saferoot"
	"berth/op"
)

// A plugin is a program in the plugin directory, named by its ID. It is called
// with its operation as argument and the volume in its environment, and answers
// in JSON on its standard output. Nomad documents the names.

// How long a plugin may take.
const (
	versionTime = 5 * time.Second
	callTime    = 60 * time.Second
)

// maxOutput bounds what is read of a plugin's output, in bytes.
const maxOutput = 64 << 10

// version asks a plugin for its version.
func (v *Volumes) version(ctx context.Context, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := v.run(ctx, id, "fingerprint", nil)
	if err != nil {
		return "", err
	}
	var said struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Version == "" || len(said.Version) > 64 {
		return "", fmt.Errorf("its answer to fingerprint is not JSON with a version: %q", berth.Clip(string(out), 128))
	}
	return said.Version, nil
}

// call has a plugin do something to a volume.
func (v *Volumes) call(ctx context.Context, operation string, vol *berth.HostVolume) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	params, err := json.Marshal(vol.Parameters)
	if err != nil {
		return nil, err
	}
	out, err := v.run(ctx, vol.PluginID, operation, []string{
		"DHV_VOLUMES_DIR=" + v.c.Dir, "DHV_NAMESPACE=" + vol.Namespace, "DHV_VOLUME_NAME=" + vol.Name, "DHV_VOLUME_ID=" + vol.ID,
		"DHV_NODE_ID=" + v.c.Node.String(), "DHV_NODE_POOL=" + v.c.Pool, "DHV_PARAMETERS=" + string(params), "DHV_CREATED_PATH=" + vol.HostPath,
		"DHV_CAPACITY_MIN_BYTES=" + strconv.FormatInt(vol.RequestedCapacityMinBytes, 10),
		"DHV_CAPACITY_MAX_BYTES=" + strconv.FormatInt(vol.RequestedCapacityMaxBytes, 10),
	})
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "host volume plugin %s: %s: %w", vol.PluginID, operation, err)
	}
	return out, nil
}

// run runs a plugin. What runs is the file that was checked: it is opened below
// the plugin directory, and run by its descriptor.
func (v *Volumes) run(ctx context.Context, id, operation string, env []string) ([]byte, error) {
	if !op.IsHostPlugin(id) {
		return nil, berth.Errorf(berth.Invalid, "%q is not the ID of a host volume plugin", berth.Clip(id, 64))
	}
	dir, err := saferoot.Open(v.c.PluginDir)
	if err != nil {
		return nil, fmt.Errorf("the plugin directory: %w", err)
	}
	defer dir.Close()
	f, err := dir.OpenFile(id, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return nil, fmt.Errorf("it is not an executable file")
	case st.Mode()&0o022 != 0:
		return nil, fmt.Errorf("others than its owner may write it")
	}
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid != 0 && int(s.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d, neither to root nor to the agent's", s.Uid)
	}
	var out, errs limited
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", operation)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Args[0] = id
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DHV_OPERATION=" + operation, "DHV_PLUGIN_DIR=" + v.c.PluginDir}, env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%w: %s", err, berth.Clip(strings.TrimSpace(errs.buf.String()), 256))
	}
	return out.buf.Bytes(), nil
}

// limited keeps the beginning of an output.
type limited struct{ buf bytes.Buffer }

// Write implements io.Writer. What is too much is dropped.
func (l *limited) Write(b []byte) (int, error) {
	if room := maxOutput - l.buf.Len(); room > 0 {
		l.buf.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

// mkdir makes the directory of a volume, named by the volume's ID. Its mode and
// owner can be parameters.
func (v *Volumes) mkdir(vol *berth.HostVolume) (*op.HostVolumeMade, error) {
	mode, uid, gid := uint64(0o700), -1, -1
	var ps berth.Problems
	for key, value := range vol.Parameters {
		var err error
		switch key {
		case "mode":
			if mode, err = strconv.ParseUint(value, 8, 12); err != nil || mode > 0o777 {
				ps.Addf("Parameters.mode", "must be an octal number up to 777, got %q", berth.Clip(value, 32))
			}
		case "uid":
			uid = id(&ps, "Parameters.uid", value)
		case "gid":
			gid = id(&ps, "Parameters.gid", value)
		default:
			ps.Addf("Parameters["+berth.Clip(key, 32)+"]", "is unknown to the plugin mkdir: want mode, uid or gid")
		}
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	made, err := v.makeDir(vol.ID, os.FileMode(mode), uid, gid)
	if err != nil {
		return nil, berth.Errorf(berth.Unavailable, "host volume %s: %w", vol.Name, err)
	}
	return &op.HostVolumeMade{HostPath: made}, nil
}

// id reads the number of a user or group.
func id(ps *berth.Problems, path, value string) int {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		ps.Addf(path, "must be an integer of at least 0, got %q", berth.Clip(value, 32))
	}
	return int(n)
}

// makeDir makes a directory below that of all volumes and returns its path.
func (v *Volumes) makeDir(name string, mode os.FileMode, uid, gid int) (string, error) {
	if err := os.MkdirAll(v.c.Dir, 0o711); err != nil {
		return "", err
	}
	root, err := saferoot.Open(v.c.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := root.Mkdir(name, mode); err != nil {
		return "", err
	}
	if uid >= 0 || gid >= 0 {
		if err := root.Chown(name, uid, gid); err != nil {
			return "", err
		}
	}
	return root.Path() + "/" + name, nil
}
