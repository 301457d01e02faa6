// Package audit writes the audit log of an agent: one line of JSON for each stage
// of each request. Lines are chained: each holds the hash of the one before it,
// so that a line that was changed, removed or put in shows. It does not know what
// requests are about; the API fills in the entries.
//
// The chain shows that the lines belong together. Somebody who can write the file
// can make another chain, so keep the hash of the last line elsewhere from time to
// time, or send the lines to another machine as they come.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth"
)

// The stages of a request.
const (
	Received = "OperationReceived" // before it is processed
	Complete = "OperationComplete" // before its answer is sent, or when its stream has ended
)

// Entry is what the audit log says of one stage of a request. It holds no secret
// and no body.
type Entry struct {
	CreatedAt time.Time `json:"created_at"`
	EventType string    `json:"event_type"` // "audit"
	Payload   Payload   `json:"payload"`
}

// Payload is the content of an entry.
type Payload struct {
	ID        string    `json:"id"` // of the request; both stages have the same
	Stage     string    `json:"stage"`
	Type      string    `json:"type"` // "audit"
	Timestamp time.Time `json:"timestamp"`
	Version   int       `json:"version"` // 1
	Auth      Auth      `json:"auth"`
	Request   Request   `json:"request"`
	Response  *Response `json:"response,omitempty"` // of the stage Complete
}

// Auth is who made a request.
type Auth struct {
	AccessorID string    `json:"accessor_id,omitempty"` // of the token
	Name       string    `json:"name,omitempty"`        // of the token, or of the task or node that showed its identity
	Type       string    `json:"type,omitempty"`        // client, management, workload, anonymous or invalid
	Global     bool      `json:"global,omitempty"`
	CreateTime time.Time `json:"create_time,omitzero"`
}

// Request is what was asked for.
type Request struct {
	ID        string            `json:"id"`
	Operation string            `json:"operation"`        // the HTTP method
	Endpoint  string            `json:"endpoint"`         // the path, without parameters
	Route     string            `json:"route,omitempty"`  // the name of the operation, such as job.read
	Object    map[string]string `json:"object,omitempty"` // what it names: JobID, AllocID, Task
	Namespace Namespace         `json:"namespace"`
	Meta      Meta              `json:"request_meta"`
	Node      NodeMeta          `json:"node_meta"`
}

// Namespace is the namespace that a request names.
type Namespace struct {
	ID string `json:"id"`
}

// Meta is where a request came from.
type Meta struct {
	RemoteAddress string `json:"remote_address"`
	UserAgent     string `json:"user_agent,omitempty"`
	Websocket     bool   `json:"websocket,omitempty"`
}

// NodeMeta is the agent that took the request.
type NodeMeta struct {
	IP   string `json:"ip,omitempty"`
	Name string `json:"name,omitempty"`
}

// Response is how a request ended.
type Response struct {
	StatusCode int     `json:"status_code"`
	Error      string  `json:"error,omitempty"` // the kind of the error
	Millis     float64 `json:"latency_ms"`
}

// Filter excludes entries; see the configuration.
type Filter struct {
	Endpoints, Stages, Operations []string // an empty list matches everything
}

// matches reports whether a filter excludes an entry.
func (f *Filter) matches(p *Payload) bool {
	return matchesAny(f.Endpoints, p.Request.Endpoint) && matchesAny(f.Stages, p.Stage) && matchesAny(f.Operations, p.Request.Operation)
}

// matchesAny reports whether one of the patterns matches; none is any.
func matchesAny(patterns []string, s string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return glob(p, s) })
}

// glob matches a pattern in which * stands for any text.
func glob(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

// Config says where a log is, and when its file is put aside.
type Config struct {
	Path     string
	Mode     fs.FileMode   // 0 is 0600
	MaxBytes int64         // 0 is no limit
	MaxAge   time.Duration // 0 is no limit
	MaxFiles int           // that were put aside and are kept; 0 is all
	Filters  []Filter
	Now      func() time.Time // nil is time.Now
}

// Log is an audit log. It is safe for concurrent use.
type Log struct {
	c Config

	mu    sync.Mutex
	file  *os.File
	size  int64
	born  time.Time // of the file
	seq   uint64    // of the last line; 0: there is none
	last  string    // hash of the last line, in hex
	torn  bool      // a write failed in the middle: the rest of a line is at the end
	close bool
}

// Open opens a log, and goes on with what is in its file. A line at the end that
// is not whole, because the machine crashed, is cut off; the request that it was
// about got no answer.
func Open(c Config) (*Log, error) {
	if c.Mode == 0 {
		c.Mode = 0o600
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{c: c}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return l, nil
}

// open opens the file and finds its last line. An empty file goes on with the
// newest one that was put aside.
func (l *Log) open() error {
	f, err := os.OpenFile(l.c.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, l.c.Mode)
	if err != nil {
		return err
	}
	if err := f.Chmod(l.c.Mode); err != nil {
		return errors.Join(err, f.Close())
	}
	l.file = f
	if err := l.resume(); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// resume finds out where the chain goes on.
func (l *Log) resume() error {
	st, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.born = l.c.Now()
	line, whole, err := lastLine(l.file, st.Size())
	if err != nil {
		return err
	}
	if whole < st.Size() {
		if err := l.file.Truncate(whole); err != nil {
			return err
		}
	}
	l.size = whole
	if line == nil {
		old, err := l.aside()
		if err != nil || len(old) == 0 {
			return err
		}
		f, err := os.Open(old[len(old)-1])
		if err != nil {
			return err
		}
		defer f.Close()
		if st, err = f.Stat(); err != nil {
			return err
		}
		if line, _, err = lastLine(f, st.Size()); err != nil || line == nil {
			return err
		}
	} else if first, err := firstTime(l.file); err == nil {
		l.born = first
	}
	link, _, err := parseLine(line)
	if err != nil {
		return fmt.Errorf("%s: the last line: %w; move the file away to begin another chain", l.c.Path, err)
	}
	l.seq, l.last = link.Seq, link.hash
	return nil
}

// lastLine returns the last whole line of a file, nil if the file has none, and where
// whole lines end.
func lastLine(f io.ReaderAt, size int64) (line []byte, whole int64, err error) {
	const block = 64 << 10
	var tail []byte
	for at := size; at > 0; {
		n := min(block, at)
		b := make([]byte, n)
		if _, err := f.ReadAt(b, at-n); err != nil && err != io.EOF {
			return nil, 0, err
		}
		at -= n
		tail = append(b, tail...)
		end := bytes.LastIndexByte(tail, '\n')
		if end < 0 {
			continue
		}
		if begin := bytes.LastIndexByte(tail[:end], '\n'); begin >= 0 || at == 0 {
			return tail[begin+1 : end], at + int64(end) + 1, nil
		}
		if len(tail) > maxLine+block {
			return nil, 0, berth.Errorf(berth.Invalid, "the last line is longer than %d bytes", maxLine)
		}
	}
	return nil, 0, nil
}

// maxLine is the length of the longest line that is read, in bytes.
const maxLine = 1 << 20

// firstTime returns when the first line of a file was written.
func firstTime(f io.ReaderAt) (time.Time, error) {
	b := make([]byte, 64<<10)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return time.Time{}, err
	}
	line, _, ok := bytes.Cut(b[:n], []byte("\n"))
	if !ok {
		return time.Time{}, io.ErrUnexpectedEOF
	}
	var e Entry
	err = json.Unmarshal(line, &e)
	return e.CreatedAt, err
}

// Write appends an entry, unless a filter excludes it. When it returns nil the
// line is in the file, though it may not be on the disk yet.
func (l *Log) Write(p Payload) error {
	for i := range l.c.Filters {
		if l.c.Filters[i].matches(&p) {
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.close {
		return berth.Errorf(berth.Unavailable, "the audit log is closed")
	}
	if err := l.rotate(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	now := l.c.Now().UTC()
	p.Type, p.Version, p.Timestamp = "audit", 1, now
	line, hash, err := chained(l.seq+1, l.last, Entry{CreatedAt: now, EventType: "audit", Payload: p})
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if l.torn {
		if err := l.file.Truncate(l.size); err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		l.torn = false
	}
	n, err := l.file.Write(line)
	if err != nil {
		l.torn = n > 0
		return fmt.Errorf("audit log: %w", err)
	}
	l.size += int64(n)
	l.seq++
	l.last = hash
	return nil
}

// rotate puts the file aside when it is too large or too old. The name of what is
// put aside has the time, so names are in order.
func (l *Log) rotate() error {
	now := l.c.Now()
	big, old := l.c.MaxBytes > 0 && l.size >= l.c.MaxBytes, l.c.MaxAge > 0 && now.Sub(l.born) >= l.c.MaxAge
	if l.size == 0 || !big && !old {
		return nil
	}
	ext := filepath.Ext(l.c.Path)
	name := fmt.Sprintf("%s-%020d%s", strings.TrimSuffix(l.c.Path, ext), l.seq, ext)
	if err := errors.Join(l.file.Sync(), os.Rename(l.c.Path, name)); err != nil {
		return err
	}
	f, err := os.OpenFile(l.c.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, l.c.Mode)
	if err != nil { // the old file goes on under its new name, and the next entry tries again
		return errors.Join(err, os.Rename(name, l.c.Path))
	}
	_ = l.file.Close() // it was synced
	l.file, l.size, l.born = f, 0, now
	if l.c.MaxFiles == 0 {
		return nil
	}
	all, err := l.aside()
	if err != nil {
		return err
	}
	for _, name := range all[:max(0, len(all)-l.c.MaxFiles)] {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// aside returns the files that were put aside, the oldest first.
func (l *Log) aside() ([]string, error) {
	ext := filepath.Ext(l.c.Path)
	base := strings.TrimSuffix(filepath.Base(l.c.Path), ext) + "-"
	entries, err := os.ReadDir(filepath.Dir(l.c.Path))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		n := strings.TrimSuffix(strings.TrimPrefix(e.Name(), base), ext)
		if _, err := strconv.ParseUint(n, 10, 64); err == nil && e.Name() == base+n+ext && len(n) == 20 {
			out = append(out, filepath.Join(filepath.Dir(l.c.Path), e.Name()))
		}
	}
	return out, nil
}

// Close closes the log. It brings what was written to the disk.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.close {
		return nil
	}
	l.close = true
	return errors.Join(l.file.Sync(), l.file.Close())
}

// link is what chains a line to the one before it.
type link struct {
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"`
	hash string
}

// The end of a line, after which its hash has been computed.
const (
	hashKey = `,"hash":"`
	hashEnd = `"}`
)

// chained returns the line of an entry, and its hash: the SHA-256 of the line up
// to the key of the hash.
func chained(seq uint64, prev string, e Entry) (line []byte, hash string, err error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		link
		Entry
	}{link{Seq: seq, Prev: prev}, e}); err != nil {
		return nil, "", err
	}
	body := bytes.TrimSuffix(bytes.TrimRight(b.Bytes(), "\n"), []byte("}"))
	sum := sha256.Sum256(body)
	hash = hex.EncodeToString(sum[:])
	return append(append(body, hashKey+hash+hashEnd...), '\n'), hash, nil
}

// parseLine checks the hash of a line, and returns how it is chained.
func parseLine(line []byte) (link, Entry, error) {
	var x struct {
		link
		Entry
		Hash string `json:"hash"`
	}
	const tail = len(hashKey) + sha256.Size*2 + len(hashEnd)
	if len(line) < tail || !bytes.HasPrefix(line[len(line)-tail:], []byte(hashKey)) {
		return link{}, Entry{}, berth.Errorf(berth.Invalid, "it has no hash at its end")
	}
	if err := json.Unmarshal(line, &x); err != nil {
		return link{}, Entry{}, berth.Errorf(berth.Invalid, "it is no JSON: %w", err)
	}
	sum := sha256.Sum256(line[:len(line)-tail])
	if x.Hash != hex.EncodeToString(sum[:]) {
		return link{}, Entry{}, berth.Errorf(berth.Invalid, "its hash is %.64q, and its content has another: it was changed", x.Hash)
	}
	x.link.hash = x.Hash
	return x.link, x.Entry, nil
}
