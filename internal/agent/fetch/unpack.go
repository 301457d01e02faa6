package fetch

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// kinds are the kinds of archives, by the ends of their names, longer ones
// first.
var kinds = []string{"tar.bz2", "tar.gz", "tar.xz", "tar.zst", "tbz2", "tgz", "txz", "tzst", "bz2", "tar", "zip", "zst", "gz", "xz"}

const (
	mostRatio = 100     // bytes for one of the archive
	freeBytes = 1 << 20 // that the ratio does not hold for
	mostDepth = 32      // directories one in the other

	aroundFile  = 4 << 10  // bytes of a tar around a file, which are not its content
	mostListing = 16 << 20 // bytes of the list of a zip's entries, or 1 KiB for each that may be in it
)

// unpacker unpacks within limits.
type unpacker struct {
	limit   int64 // bytes in all
	files   int   // files, directories and links
	root    *os.Root
	size    int64 // of the archive
	written int64
	count   int
}

// unpack unpacks the file that was downloaded. single reports whether it was one
// compressed file.
func (u *unpacker) unpack(kind string) (single bool, err error) {
	f, err := os.Open(rawName)
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	u.size = st.Size()
	if err := os.Mkdir(treeName, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if u.root, err = os.OpenRoot(treeName); err != nil {
		return false, err
	}
	defer u.root.Close()
	if kind == "zip" {
		return false, u.zip(f)
	}
	r, tarred, err := opened(kind, bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return false, err
	}
	if tarred {
		return false, u.tar(&metered{r, u, u.most() + int64(u.files+2)*aroundFile})
	}
	out, err := os.OpenFile(fileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return true, err
	}
	return true, errors.Join(u.copy(out, r), out.Close())
}

// opened returns what is in a compressed file, and whether that is a tar.
func opened(kind string, r io.Reader) (out io.Reader, tarred bool, err error) {
	inner := strings.TrimPrefix(strings.TrimPrefix(kind, "tar."), "t")
	tarred = inner != kind
	switch {
	case kind == "tar":
		return r, true, nil
	case inner == "gz":
		out, err = gzip.NewReader(r)
	case inner == "bz2":
		out = bzip2.NewReader(r)
	case inner == "xz":
		out, err = xz.ReaderConfig{DictCap: 64 << 20}.NewReader(r)
	case inner == "zst":
		out, err = zstd.NewReader(r, zstd.WithDecoderMaxMemory(128<<20), zstd.WithDecoderConcurrency(1))
	default:
		return nil, false, bad("unknown kind of archive %q: want %s", kind, strings.Join(kinds, ", "))
	}
	if err != nil {
		return nil, false, bad("the archive cannot be read: %v", err)
	}
	return out, tarred, nil
}

// copy copies a file within the limits.
func (u *unpacker) copy(to io.Writer, from io.Reader) error {
	most := u.most() - u.written
	n, err := io.Copy(to, io.LimitReader(from, most+1))
	u.written += n
	switch {
	case n > most:
		return u.tooMuch()
	case err != nil:
		return unreadable(err)
	}
	return nil
}

// most returns how many bytes there may be in the archive.
func (u *unpacker) most() int64 { return min(u.limit, max(freeBytes, mostRatio*u.size)) }

// tooMuch is the error for more than that.
func (u *unpacker) tooMuch() error {
	if u.most() == u.limit {
		return bad("what is in the archive has more than %d bytes", u.limit)
	}
	return bad("what is in the archive has more than %d times its size", mostRatio)
}

// unreadable returns the error for an archive that cannot be read.
func unreadable(err error) error {
	if b, ok := errors.AsType[*badArtifact](err); ok {
		return b
	}
	return bad("the archive cannot be read: %v", err)
}

// metered reads a tar and bounds all its bytes, also those of headers.
type metered struct {
	io.Reader
	u    *unpacker
	left int64
}

// Read implements [io.Reader].
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.left -= int64(n); m.left < 0 {
		return 0, m.u.tooMuch()
	}
	return n, err
}

// listing bounds what is read of a zip's list of entries, which is kept in memory.
type listing struct {
	io.ReaderAt
	most, left int64
}

// ReadAt implements [io.ReaderAt].
func (l *listing) ReadAt(p []byte, at int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, bad("the archive has a list of entries of more than %d bytes", l.most)
	}
	return l.ReaderAt.ReadAt(p, at)
}

// place checks the name of an entry and counts it.
func (u *unpacker) place(name string) (string, error) {
	clean := path.Clean(name)
	switch {
	case strings.ContainsAny(name, "\\\x00"), path.IsAbs(name), clean == "..", strings.HasPrefix(clean, "../"), len(name) > 4096:
		return "", bad("the archive has an entry %.100q, which leads out of it", name)
	case strings.Count(clean, "/") >= mostDepth:
		return "", bad("the archive has an entry %.100q, which is deeper than %d directories", name, mostDepth)
	}
	if u.count++; u.count > u.files {
		return "", bad("the archive has more than %d entries", u.files)
	}
	if dir := path.Dir(clean); dir != "." {
		if err := u.mkdir(dir); err != nil {
			return "", err
		}
	}
	return clean, nil
}

// mkdir makes a directory and those above it. None of them may be a link.
func (u *unpacker) mkdir(p string) error {
	names := strings.Split(p, "/")
	for i := range names {
		dir := path.Join(names[:i+1]...)
		if err := u.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return bad("the archive has an entry %.100q that cannot be made: %v", dir, err)
		}
		if st, err := u.root.Lstat(dir); err != nil || !st.IsDir() {
			return bad("the archive has an entry below %.100q, which is not a directory", dir)
		}
	}
	return nil
}

// file writes a file. It replaces nothing but a file.
func (u *unpacker) file(p string, mode fs.FileMode, from io.Reader) error {
	if st, err := u.root.Lstat(p); err == nil {
		if !st.Mode().IsRegular() {
			return bad("the archive has two entries %.100q", p)
		}
		if err := u.root.Remove(p); err != nil {
			return err
		}
	}
	out, err := u.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return bad("the archive has an entry %.100q that cannot be made: %v", p, err)
	}
	err = u.copy(out, from)
	return errors.Join(err, out.Chmod(mode.Perm()|0o400), out.Close())
}

// link makes a link that stays inside.
func (u *unpacker) link(p, to string) error {
	if path.IsAbs(to) || to == "" || strings.ContainsAny(to, "\\\x00") || len(to) > 4096 || strings.HasPrefix(path.Clean(path.Dir(p)+"/"+to)+"/", "../") {
		return bad("the archive has a link %.100q to %.100q, which leads out of it", p, to)
	}
	if err := u.root.Symlink(to, p); err != nil {
		return bad("the archive has a link %.100q that cannot be made: %v", p, err)
	}
	return nil
}

func (u *unpacker) tar(r io.Reader) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader, tar.TypeXHeader, tar.TypeGNULongLink, tar.TypeGNULongName:
			continue
		}
		p, err := u.place(h.Name)
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = u.mkdir(p)
		case tar.TypeReg, tar.TypeGNUSparse:
			err = u.file(p, h.FileInfo().Mode(), t)
		case tar.TypeSymlink:
			err = u.link(p, h.Linkname)
		default:
			err = bad("the archive has an entry %.100q that is neither a file nor a directory nor a symbolic link", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacker) zip(f *os.File) error {
	most := max(mostListing, int64(u.files)<<10)
	list := &listing{f, most, most}
	z, err := zip.NewReader(list, u.size)
	if err != nil {
		return unreadable(err)
	}
	list.left = math.MaxInt64
	if len(z.File) > u.files {
		return bad("the archive has more than %d entries", u.files)
	}
	for _, e := range z.File {
		p, err := u.place(e.Name)
		if err != nil {
			return err
		}
		mode := e.Mode()
		switch {
		case mode.IsDir() || strings.HasSuffix(e.Name, "/"):
			err = u.mkdir(p)
		case mode.IsRegular() || mode&fs.ModeSymlink != 0:
			r, oerr := e.Open()
			if oerr != nil {
				return bad("the archive cannot be read: %v", oerr)
			}
			if mode.IsRegular() {
				err = u.file(p, mode, r)
			} else {
				var to []byte
				if to, err = io.ReadAll(io.LimitReader(r, 4097)); err == nil {
					err = u.link(p, string(to))
				}
			}
			_ = r.Close()
		default:
			err = bad("the archive has an entry %.100q that is neither a file nor a directory nor a symbolic link", e.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
