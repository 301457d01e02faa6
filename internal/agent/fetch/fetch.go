// Package fetch brings artifacts of tasks to a node. What talks to others and
// looks at what they sent is a process of its own, which may write to one empty
// directory and read little more than programs and certificates. The agent then
// takes over from that directory what is a plain file, a directory, or a link
// that stays inside.
//
// HashiCorp's go-getter reads the sources and downloads; archives are unpacked
// here, within limits (S-19). Files with a checksum are kept for other
// allocations.
package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/isolate"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
)

// Word leads to Main.
const Word = "@fetch"

// Config says what fetching may take. Fields that are 0 have defaults.
type Config struct {
	Command []string // of helpers; see isolate.Helper
	Cache   string   // directory of the cache; "" is none

	HTTPTimeout time.Duration // for one file; 30m
	GitTimeout  time.Duration // 30m
	S3Timeout   time.Duration // 30m
	MaxBytes    int64         // of what is downloaded; 100 GB
	MaxUnpacked int64         // bytes of what is in an archive; 100 GB
	MaxFiles    int           // in an archive; 4096
	CacheBytes  int64         // of the whole cache; 2 GiB
	Open        bool          // without Landlock
	Paths       []string      // that may be read as well
	Env         []string      // names of variables of the agent's environment that are passed on
}

// The defaults, as documented for Nomad.
const (
	defaultTimeout  = 30 * time.Minute
	defaultMaxBytes = 100_000_000_000
	defaultMaxFiles = 4096
	defaultCache    = 2 << 30
)

// Fetcher fetches artifacts. It is safe for concurrent use.
type Fetcher struct {
	c     Config
	cache *cache
}

// New returns a Fetcher.
func New(c Config) *Fetcher {
	if c.HTTPTimeout <= 0 {
		c.HTTPTimeout = defaultTimeout
	}
	if c.GitTimeout <= 0 {
		c.GitTimeout = defaultTimeout
	}
	if c.S3Timeout <= 0 {
		c.S3Timeout = defaultTimeout
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.MaxUnpacked <= 0 {
		c.MaxUnpacked = defaultMaxBytes
	}
	if c.MaxFiles <= 0 {
		c.MaxFiles = defaultMaxFiles
	}
	if c.CacheBytes <= 0 {
		c.CacheBytes = defaultCache
	}
	return &Fetcher{c, &cache{dir: c.Cache, most: c.CacheBytes}}
}

// Artifact is what to fetch, with all names replaced.
type Artifact struct {
	Source   string
	Options  map[string]string
	Headers  map[string]string
	Mode     string // any, file or dir
	Insecure bool
}

// The modes.
const (
	ModeAny  = "any"
	ModeFile = "file"
	ModeDir  = "dir"
)

// source returns the source with the options as its parameters.
func (a *Artifact) source() (string, error) {
	if len(a.Source) > 4096 || strings.ContainsFunc(a.Source, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", berth.Errorf(berth.Invalid, "artifact.source: must be at most 4096 bytes without control characters")
	}
	if len(a.Options) == 0 {
		return a.Source, nil
	}
	before, query, _ := strings.Cut(a.Source, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", berth.Errorf(berth.Invalid, "artifact.source: the part after ? cannot be read: %w", err)
	}
	for k, v := range a.Options {
		q.Set(k, v)
	}
	return before + "?" + q.Encode(), nil
}

// order is what the process is told.
type order struct {
	Source      string
	Mode        string
	Headers     map[string]string
	Insecure    bool
	Have        bool // the file is there already
	HTTPTimeout time.Duration
	GitTimeout  time.Duration
	S3Timeout   time.Duration
	MaxBytes    int64
	MaxUnpacked int64
	MaxFiles    int
}

// answer is what it says in the end.
type answer struct {
	Root string // what to take: a name below its directory, with slashes
	Name string // of a file; "" if Root is a directory
	Raw  string // the file as it was downloaded, if it is still there; ""
	Err  string `json:",omitempty"`
	// Bad says that fetching it again would bring the same.
	Bad bool `json:",omitempty"`
}

// What the process may read of the host: programs and their libraries, and what
// names and certificates are looked up in.
var hostFiles = []string{
	"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services",
	"/etc/protocols", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/localtime", "/etc/ld.so.cache", "/etc/alternatives", "/etc/crypto-policies", "/dev/urandom",
	"/etc/ssh/ssh_config", "/etc/ssh/ssh_known_hosts", "/etc/passwd",
}

const (
	memory  = 1 << 30
	cpu     = 1800 // s
	workDir = ".fetch"
)

// ErrBad is in errors that another try would only repeat.
var ErrBad = errors.New("it would be the same again")

// Fetch fetches an artifact and places it at dst below root: a file in the
// directory dst or, with mode file, as dst itself. The owner of what is placed is
// as o says.
func (f *Fetcher) Fetch(ctx context.Context, a *Artifact, root *saferoot.Root, dst string, o saferoot.Adoption) error {
	source, err := a.source()
	if err != nil {
		return fmt.Errorf("%w (%w)", err, ErrBad)
	}
	work, name, err := makeWork(root)
	if err != nil {
		return err
	}
	defer root.RemoveAll(workDir + "/" + name)
	defer work.Close()
	_ = failpoint.Hit("fetch/begun")
	sum := checksumOf(source)
	h := order{
		Source: source, Mode: a.Mode, Headers: a.Headers, Insecure: a.Insecure, HTTPTimeout: f.c.HTTPTimeout, GitTimeout: f.c.GitTimeout, S3Timeout: f.c.S3Timeout,
		MaxBytes: f.c.MaxBytes, MaxUnpacked: f.c.MaxUnpacked, MaxFiles: f.c.MaxFiles,
	}
	h.Have = sum != "" && f.cache.get(sum, work, rawName)
	if h.Have {
		if os.Geteuid() == 0 {
			if err := work.Chown(rawName, isolate.HelperUser, isolate.HelperUser); err != nil {
				return err
			}
		}
	}
	got, err := f.run(ctx, work, &h)
	if err != nil {
		return err
	}
	_ = failpoint.Hit("fetch/fetched")
	if sum != "" && got.Raw == rawName && !h.Have {
		f.cache.put(sum, work, rawName)
	}
	src := path.Clean(got.Root)
	if src == "." || strings.HasPrefix(src, "../") || path.IsAbs(src) {
		return berth.Errorf(berth.Invalid, "the answer of the fetcher names %.64q", got.Root)
	}
	if got.Name != "" && a.Mode != ModeFile {
		if err := saferoot.Name(got.Name); err != nil {
			return err
		}
		dst = path.Join(dst, got.Name)
	}
	if err := makeParents(root, path.Dir(dst), o); err != nil {
		return err
	}
	if err := root.Adopt(work, src, dst, o); err != nil {
		if berth.KindOf(err) == berth.Invalid {
			err = fmt.Errorf("%w (%w)", err, ErrBad)
		}
		return err
	}
	_ = failpoint.Hit("fetch/placed")
	return nil
}

// run runs the process.
func (f *Fetcher) run(ctx context.Context, work *saferoot.Root, o *order) (*answer, error) {
	var out bytes.Buffer
	env := []string{
		"GOMEMLIMIT=700MiB", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=.", "TMPDIR=.", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_SYSTEM=/dev/null", "GIT_ALLOW_PROTOCOL=https:http:git:ssh", "GIT_ASKPASS=/bin/false", "LANG=C.UTF-8",
	}
	for _, name := range f.c.Env {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	h := isolate.Helper{
		Command: f.c.Command, Word: Word, Dir: work.ProcPath(), Input: o, Output: &out, Env: env,
		Box: isolate.Box{
			Network: true, Run: true, Read: append(append([]string(nil), hostFiles...), f.c.Paths...), Write: ".", Open: f.c.Open,
			Memory: memory, CPU: cpu, FileSize: uint64(max(f.c.MaxBytes, f.c.MaxUnpacked)),
		},
	}
	if dir, err := filepath.EvalSymlinks(work.ProcPath()); err == nil {
		h.Dir = dir
	}
	err := h.Run(ctx)
	if ended, ok := errors.AsType[*isolate.HelperError](err); ok && ended.Killed() {
		return nil, fmt.Errorf("%w (%w)", berth.Errorf(berth.Invalid, "%w: at most %d MiB of memory, %d minutes of processor time and files of %d bytes are allowed", err, memory>>20, cpu/60, h.Box.FileSize), ErrBad)
	}
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("the answer of the fetcher cannot be read: %w", err)
	}
	switch {
	case a.Err != "" && a.Bad:
		return nil, fmt.Errorf("%w (%w)", berth.Errorf(berth.Invalid, "%s", a.Err), ErrBad)
	case a.Err != "":
		return nil, berth.Errorf(berth.Unavailable, "%s", a.Err)
	}
	return &a, nil
}

// makeWork makes an empty directory that belongs to the process.
func makeWork(root *saferoot.Root) (*saferoot.Root, string, error) {
	if err := root.Mkdir(workDir, 0o711); err != nil {
		return nil, "", err
	}
	name := fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano())
	p := workDir + "/" + name
	if err := root.Mkdir(p, 0o700); err != nil {
		return nil, "", err
	}
	if os.Geteuid() == 0 {
		if err := root.Chown(p, isolate.HelperUser, isolate.HelperUser); err != nil {
			return nil, "", err
		}
	}
	work, err := root.Sub(p)
	return work, name, err
}

// makeParents makes the directories on the way to a destination that are not
// there.
func makeParents(root *saferoot.Root, dir string, o saferoot.Adoption) error {
	if dir == "." {
		return nil
	}
	names := strings.Split(dir, "/")
	for i := range names {
		p := strings.Join(names[:i+1], "/")
		if _, err := root.Lstat(p); err == nil {
			continue
		}
		if err := root.Mkdir(p, 0o755); err != nil {
			return err
		}
		if o.UID >= 0 || o.GID >= 0 {
			if err := root.Chown(p, o.UID, o.GID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep removes what fetching left in an allocation's directory when the agent
// was killed.
func Sweep(root *saferoot.Root) error { return root.RemoveAll(workDir) }
