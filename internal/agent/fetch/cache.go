package fetch

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/saferoot"
)

// cache keeps downloaded files by their checksum, up to a number of bytes. What
// was used least recently goes first. A failure of it is no failure of a fetch.
type cache struct {
	dir  string
	most int64
	mu   sync.Mutex // one changes it at a time
}

// hashes are the kinds of checksums that files are kept by. Others can be made to
// collide.
var hashes = map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}

// sums are all kinds of checksums, by the length of their text.
var sums = map[int]string{2 * md5.Size: "md5", 2 * sha1.Size: "sha1", 2 * sha256.Size: "sha256", 2 * sha512.Size: "sha512"}

// checksumOf returns the name by which the file of a source is kept, "" if it is
// not.
func checksumOf(source string) string {
	_, query, _ := strings.Cut(source, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	kind, text, ok := strings.Cut(strings.ToLower(q.Get("checksum")), ":")
	if !ok {
		kind, text = sums[len(kind)], kind
	}
	if hashes[kind] == nil || sums[len(text)] != kind {
		return ""
	}
	if _, err := hex.DecodeString(text); err != nil {
		return ""
	}
	return kind + "-" + text
}

func (c *cache) open() (*saferoot.Root, bool) {
	if c.dir == "" || os.MkdirAll(c.dir, 0o700) != nil {
		return nil, false
	}
	r, err := saferoot.Open(c.dir)
	return r, err == nil
}

// get copies the file of a checksum, and reports whether there is one.
func (c *cache) get(sum string, to *saferoot.Root, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, ok := c.open()
	if !ok {
		return false
	}
	defer dir.Close()
	f, err := dir.OpenFile(sum, os.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if !copied(f, to, name, sum) {
		_ = dir.Remove(sum) // damaged
		return false
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now)
	return true
}

// copied copies a file and reports whether it has its checksum.
func copied(from *os.File, to *saferoot.Root, name, sum string) bool {
	kind, want, _ := strings.Cut(sum, "-")
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	h := hashes[kind]()
	_, err = io.Copy(io.MultiWriter(out, h), from)
	err = cmp.Or(err, out.Close())
	if err != nil || hex.EncodeToString(h.Sum(nil)) != want {
		_ = to.Remove(name)
		return false
	}
	return true
}

// put keeps a file, if it has its checksum and is not too large, and drops the
// oldest ones that are too many.
func (c *cache) put(sum string, from *saferoot.Root, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dir, ok := c.open()
	if !ok {
		return
	}
	defer dir.Close()
	f, err := from.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() > c.most/2 {
		return
	}
	type kept struct {
		name string
		size int64
		used time.Time
	}
	var all []kept
	total := st.Size()
	entries, _ := dir.ReadDir(".")
	for _, e := range entries {
		if st, err := dir.Lstat(e.Name()); err == nil && e.Name() != sum {
			all = append(all, kept{e.Name(), st.Size(), st.ModTime()})
			total += st.Size()
		}
	}
	slices.SortFunc(all, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, k := range all {
		if total <= c.most {
			break
		}
		if dir.Remove(k.name) == nil {
			total -= k.size
		}
	}
	_ = dir.Remove(sum)
	copied(f, dir, sum, sum)
}
