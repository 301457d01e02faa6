// Package disk gives an allocation the data of the one that it replaces, for
// groups whose ephemeral_disk is sticky: on one node by renaming directories, from
// another node by copying them in parts, which servers pass on. What comes from
// another node is not trusted: it is bounded, and nothing of it reaches what is not
// below the allocation's own directory. Whether an allocation takes over data, and
// when the other one has ended, is for the caller.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/failpoint"
	"berth/internal/rest"
	"berth/internal/saferoot"
	"berth/op"
)

// The names that the package uses in the directory of an allocation. No task has
// them.
const (
	Staging = ".disk"       // data on its way from another node
	Done    = ".disk-taken" // there is nothing to take over, any more
)

// Missing is the error for data that nobody has.
type Missing struct{ Why string }

// Error implements error.
func (m *Missing) Error() string { return m.Why }

// Taken reports whether an allocation has what it takes over. Then its tasks may
// have been started, and nothing there may be replaced.
func Taken(to *saferoot.Root) bool {
	_, err := to.Lstat(Done)
	return err == nil
}

// Finish notes that an allocation has what it takes over.
func Finish(to *saferoot.Root) error {
	if err := to.RemoveAll(Staging); err != nil {
		return err
	}
	return to.ReplaceSync(Done, nil, 0o600)
}

// Move moves directories from the directory of an allocation that has ended to that
// of another on the same node. Interrupted, it can be called again.
func Move(from, to *saferoot.Root, dirs []string) error {
	for _, d := range dirs {
		if top, _, ok := strings.Cut(d, "/"); ok {
			if err := to.Mkdir(top, 0o711); err != nil {
				return err
			}
		}
		if err := to.Take(from, d, d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = failpoint.Hit("disk/moved")
	}
	return nil
}

// Source returns a part of the data of another allocation.
type Source func(context.Context, op.DiskPart) (*op.DiskAnswer, error)

// Copy says what is copied from another node, and how much at most.
type Copy struct {
	From Source
	Dirs []string
	Tell func(message string) // what is waited for

	Bytes int64 // most
	Files int   // most, with directories and links; 0 is 100,000
	Rate  int64 // bytes a second; 0 is 128 MiB
}

// The bounds of a copy that its caller does not give.
const (
	mostFiles = 100_000
	mostRate  = 128 << 20
	mostDepth = 64
	mostTries = 5 // without any progress
)

// Took is what a copy took.
type Took struct {
	Bytes   int64
	Files   int // with directories and links
	LeftOut int // links that lead elsewhere
}

// Run copies the directories to a directory of an allocation. What was copied
// before an interruption is not copied again. Only when all is there it is put in
// place. The error is a *Missing if the other node has no data or does not answer
// for a while.
func (c Copy) Run(ctx context.Context, to *saferoot.Root) (t Took, err error) {
	if c.Files == 0 {
		c.Files = mostFiles
	}
	if c.Rate == 0 {
		c.Rate = mostRate
	}
	stage, err := staging(to)
	if err != nil {
		return t, err
	}
	defer stage.Close()
	r := &run{Copy: c, to: stage, began: time.Now()}
	for i, d := range c.Dirs {
		r.top = strconv.Itoa(i)
		if err := r.dir(ctx, d, r.top, 0); err != nil && !errors.Is(err, errNoDir) {
			return t, err
		}
	}
	if err := stage.SyncAll(); err != nil {
		return t, err
	}
	_ = failpoint.Hit("disk/copied")
	for i, d := range c.Dirs {
		if top, _, ok := strings.Cut(d, "/"); ok {
			if err := to.Mkdir(top, 0o711); err != nil {
				return t, err
			}
		}
		if err := to.Take(stage, strconv.Itoa(i), d); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	return r.took, nil
}

// staging opens the directory of data on its way. What is there from before the
// machine was started may not have reached the disk, and goes.
func staging(to *saferoot.Root) (*saferoot.Root, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	if b, err := to.ReadFile(Staging+"/boot", 256); err != nil || string(b) != string(boot) {
		if err := errors.Join(to.RemoveAll(Staging), to.Mkdir(Staging, 0o700), to.Replace(Staging+"/boot", boot, 0o600)); err != nil {
			return nil, err
		}
	}
	return to.Sub(Staging)
}

// run is a copy under way.
type run struct {
	Copy
	to    *saferoot.Root
	top   string // of the tree that is copied, in to
	took  Took
	began time.Time
	came  int64 // bytes of this run, for the rate
}

// errNoDir is that the other allocation does not have a directory.
var errNoDir = errors.New("there is no such directory")

// bad is the error for what an honest agent does not send.
func bad(format string, args ...any) error {
	return berth.Errorf(berth.Invalid, "the data of the other node cannot be taken: "+format, args...)
}

// dir copies a directory.
func (r *run) dir(ctx context.Context, from, to string, depth int) error {
	if depth > mostDepth {
		return bad("%s is too deep: at most %d directories are allowed", berth.Clip(from, 128), mostDepth)
	}
	if err := r.to.Mkdir(to, 0o700); err != nil {
		return err
	}
	for after := ""; ; {
		a, err := r.ask(ctx, op.DiskPart{List: true, Path: from, After: after})
		if err != nil {
			return err
		}
		if a.Why != "" && len(a.Entries) == 0 {
			if depth > 0 {
				return bad("%s has gone", berth.Clip(from, 128))
			}
			return errors.Join(errNoDir, r.to.RemoveAll(to))
		}
		for i := range a.Entries {
			e := &a.Entries[i]
			if e.Name <= after {
				return bad("the names in %s are not in order", berth.Clip(from, 128))
			}
			after = e.Name
			if err := r.entry(ctx, e, from, to, depth); err != nil {
				return err
			}
		}
		if !a.More {
			return nil
		}
		if len(a.Entries) == 0 {
			return bad("%s never ends", berth.Clip(from, 128))
		}
	}
}

// entry copies what is in a directory.
func (r *run) entry(ctx context.Context, e *op.DiskEntry, from, to string, depth int) error {
	if err := saferoot.Name(e.Name); err != nil {
		return bad("%w", err)
	}
	if r.took.Files++; r.took.Files > r.Files {
		return bad("more than %d files", r.Files)
	}
	from, to = from+"/"+e.Name, to+"/"+e.Name
	switch e.Kind {
	case op.DiskFile:
		return r.file(ctx, e, from, to)
	case op.DiskLink:
		return r.link(e, to)
	case op.DiskDir:
		if err := r.dir(ctx, from, to, depth+1); err != nil {
			return err
		}
		d, err := r.to.Sub(to)
		if err != nil {
			return err
		}
		defer d.Close()
		return own(d.ProcPath(), e)
	}
	return bad("%s is neither a file nor a directory nor a link", berth.Clip(from, 128))
}

// link makes a link, if it leads to what comes with it. Others are left out.
func (r *run) link(e *op.DiskEntry, to string) error {
	dir := strings.TrimPrefix(path.Dir(to), r.top)
	inside := path.Clean("." + dir + "/" + e.Link)
	if e.Link == "" || len(e.Link) > saferoot.MaxPath || strings.ContainsRune(e.Link, 0) || path.IsAbs(e.Link) || inside == ".." || strings.HasPrefix(inside, "../") {
		r.took.LeftOut++
		return nil
	}
	if err := r.to.Symlink(e.Link, to); !errors.Is(err, fs.ErrExist) {
		return err
	}
	if text, err := r.to.Readlink(to); err != nil || text != e.Link {
		return errors.Join(r.to.RemoveAll(to), r.to.Symlink(e.Link, to))
	}
	return nil
}

// file copies a file, from where an earlier run of the copy ended.
func (r *run) file(ctx context.Context, e *op.DiskEntry, from, to string) (err error) {
	if e.Size < 0 || e.Size > r.Bytes-r.took.Bytes {
		return bad("more than %d MiB, the size of the group's ephemeral_disk", r.Bytes>>20)
	}
	r.took.Bytes += e.Size
	f, err := r.to.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	at := st.Size()
	if at == e.Size && st.ModTime().UnixNano() == e.ModTime {
		return nil // it is whole
	}
	if at > e.Size {
		if err := f.Truncate(0); err != nil {
			return err
		}
		at = 0
	}
	for at < e.Size {
		a, err := r.ask(ctx, op.DiskPart{Path: from, Offset: at})
		if err != nil {
			return err
		}
		n := int64(len(a.Data))
		if n == 0 || n > e.Size-at {
			return bad("%s has another size than it was said to have", berth.Clip(from, 128))
		}
		if _, err := f.WriteAt(a.Data, at); err != nil {
			return err
		}
		at += n
		_ = failpoint.Hit("disk/part")
		if err := r.pace(ctx, n); err != nil {
			return err
		}
	}
	return own("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), e)
}

// pace rests until n more bytes are within the rate.
func (r *run) pace(ctx context.Context, n int64) error {
	r.came += n
	due := r.began.Add(time.Duration(float64(r.came) / float64(r.Rate) * float64(time.Second)))
	if d := time.Until(due); d > 10*time.Millisecond {
		return rest.For(ctx, d)
	}
	return nil
}

// own gives a file, by the path of its descriptor, its owner, permissions and time.
// No file gives others the rights of its owner.
func own(proc string, e *op.DiskEntry) error {
	if os.Geteuid() == 0 {
		if e.UID < 0 || e.GID < 0 {
			return bad("an owner is %d:%d", e.UID, e.GID)
		}
		if err := os.Chown(proc, e.UID, e.GID); err != nil {
			return err
		}
	}
	if err := os.Chmod(proc, fs.FileMode(e.Mode)&0o777); err != nil {
		return err
	}
	t := time.Unix(0, e.ModTime)
	return os.Chtimes(proc, t, t)
}

// ask asks for a part until it is answered: while the other allocation runs, and a
// few times while nobody can be reached.
func (r *run) ask(ctx context.Context, p op.DiskPart) (*op.DiskAnswer, error) {
	for failed := 0; ; {
		a, err := r.From(ctx, p)
		wait := time.Second
		switch kind := berth.KindOf(err); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && (kind == berth.Invalid || kind == berth.Denied):
			return nil, &Missing{err.Error()}
		case err != nil:
			if failed++; failed >= mostTries {
				return nil, &Missing{fmt.Sprintf("its node cannot be reached: %v", err)}
			}
			r.Tell("Waiting for the node of the previous allocation: " + err.Error())
			wait <<= failed - 1
		case a.State == op.DiskReady:
			return a, nil
		case a.State == op.DiskInUse:
			r.Tell("Waiting for the previous allocation to stop, whose data this one takes over")
		default:
			return nil, &Missing{a.Why}
		}
		if err := rest.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}
