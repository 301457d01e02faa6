package disk

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A block device is a loop device over the file "disk" of its volume. To stage it
// attaches the loop device and puts a node of it into the staging directory; to
// publish it mounts that node at the target. The node may be opened by anybody who
// gets there, as tasks have users of their own: the agent's directory lets nobody
// through. That directory's file system must not be mounted with nodev.

// minDisk is the size of a block device that is asked for without one.
const minDisk = 1 << 20

// loopMajor is the major number of loop devices.
const loopMajor = 7

// deviceName is the node of the loop device in the staging directory.
const deviceName = "device"

// isBlock reports whether a volume is to be a block device.
func isBlock(c *csi.VolumeCapability) bool { return c.GetBlock() != nil }

// hasDisk reports whether a volume or snapshot has a file for a block device.
func hasDisk(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "disk"))
	return err == nil
}

// growDisk makes the file of a block device, or makes it larger.
func growDisk(dir string, size int64) error {
	f, err := os.OpenFile(filepath.Join(dir, "disk"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && st.Size() < size {
		err = f.Truncate(size)
	}
	return errors.Join(err, f.Close())
}

// copyContents copies what a volume or snapshot holds.
func copyContents(from, to string) error {
	err := os.CopyFS(filepath.Join(to, "data"), os.DirFS(filepath.Join(from, "data")))
	if err != nil || !hasDisk(from) {
		return err
	}
	in, err := os.Open(filepath.Join(from, "disk"))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(to, "disk"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// stageDisk attaches the loop device of a volume, unless it is.
func (p *Plugin) stageDisk(in *csi.NodeStageVolumeRequest, dir string) error {
	if !hasDisk(dir) {
		return status.Errorf(codes.FailedPrecondition, "volume %s was not made as a block device", in.VolumeId)
	}
	number, ok := findLoop(in.StagingTargetPath)
	if !ok {
		var err error
		if number, err = attachLoop(filepath.Join(dir, "disk"), in.StagingTargetPath, reads(in.VolumeCapability)); err != nil {
			return err
		}
		if err := p.note("stage", in.VolumeId, p.Node); err != nil {
			return err
		}
	}
	node, dev := filepath.Join(in.StagingTargetPath, deviceName), unix.Mkdev(loopMajor, uint32(number))
	var st unix.Stat_t
	if unix.Lstat(node, &st) == nil && st.Rdev == dev {
		return nil
	}
	if err := os.Remove(node); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(unix.Mknod(node, unix.S_IFBLK|0o600, int(dev)), os.Chmod(node, 0o666))
}

// reads reports whether all who use the volume only read it.
func reads(c *csi.VolumeCapability) bool {
	mode := c.GetAccessMode().GetMode()
	return mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY || mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
}

// publishDisk gives an allocation the loop device.
func (p *Plugin) publishDisk(in *csi.NodePublishVolumeRequest) error {
	if in.Readonly && !reads(in.VolumeCapability) { // one loop device cannot be both
		return status.Errorf(codes.InvalidArgument, "block device %s can be read-only only with an access mode for readers", in.VolumeId)
	}
	node := filepath.Join(in.StagingTargetPath, deviceName)
	if _, err := os.Lstat(node); err != nil {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not staged", in.VolumeId)
	}
	return p.bind("mount", in.VolumeId, node, in.TargetPath, false)
}

// unstageDisk detaches the loop device of a volume, if it has one.
func (p *Plugin) unstageDisk(in *csi.NodeUnstageVolumeRequest) error {
	if number, ok := findLoop(in.StagingTargetPath); ok {
		if err := onLoop(number, os.O_RDONLY, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) }); err != nil {
			return err
		}
		if err := p.note("unstage", in.VolumeId, p.Node); err != nil {
			return err
		}
	}
	err := os.Remove(filepath.Join(in.StagingTargetPath, deviceName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// tag is how a loop device names what it is for: its staging directory. The file
// would not do, as nodes that share the provider may be on one machine.
func tag(stage string) string {
	h := sha256.Sum256([]byte(stage))
	return "berth-disk-" + hex.EncodeToString(h[:16])
}

// onLoop does something with a loop device that it opens as how says.
func onLoop(number, how int, do func(fd int) error) error {
	f, err := os.OpenFile(fmt.Sprint("/dev/loop", number), how, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(int(f.Fd())), f.Close())
}

// findLoop returns the number of the loop device that is attached for a staging
// directory.
func findLoop(stage string) (number int, ok bool) {
	attached, _ := filepath.Glob("/sys/block/loop*/loop")
	for _, dir := range attached {
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(dir)), "loop%d", &number); err != nil {
			continue
		}
		is := false
		_ = onLoop(number, os.O_RDONLY, func(fd int) error { // one that is detached meanwhile is not the one
			info, err := unix.IoctlLoopGetStatus64(fd)
			is = err == nil && strings.TrimRight(string(info.File_name[:]), "\x00") == tag(stage)
			return nil
		})
		if is {
			return number, true
		}
	}
	return 0, false
}

// attachLoop attaches a free loop device to a file, and names it for a staging
// directory.
func attachLoop(file, stage string, readOnly bool) (number int, err error) {
	how, flags := os.O_RDWR, uint32(0)
	if readOnly {
		how, flags = os.O_RDONLY, unix.LO_FLAGS_READ_ONLY
	}
	disk, err := os.OpenFile(file, how, 0)
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return 0, status.Errorf(codes.FailedPrecondition, "the node has no loop devices: %v", err)
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(disk.Fd())}
	config.Info.Flags = flags
	copy(config.Info.File_name[:], tag(stage))
	for {
		if number, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return 0, err
		}
		err = onLoop(number, how, func(fd int) error { return unix.IoctlLoopConfigure(fd, &config) })
		if !errors.Is(err, unix.EBUSY) { // else another process was faster
			return number, err
		}
	}
}

// growLoop tells the loop device of a staging directory that its file has grown.
func growLoop(stage string) error {
	number, ok := findLoop(stage)
	if !ok {
		return status.Errorf(codes.NotFound, "there is no loop device for %s", stage)
	}
	return onLoop(number, os.O_RDONLY, func(fd int) error { return unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0) })
}
