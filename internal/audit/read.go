package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"berth"
)

// Line is a line of the log as it was read.
type Line struct {
	Seq     uint64
	Entry   Entry
	Problem string // why the line, or its place in the chain, cannot be trusted; "" if it can
}

// MaxScan is how many bytes of the log one call of Newest goes through.
const MaxScan = 32 << 20

// place is where Newest goes on: behind the line that ends at an offset of the
// file whose first line has a number. prev is the hash that this line must have.
type place struct {
	first  uint64
	offset int64
	prev   string
}

// parsePlace reads a token; "" is the end of the log.
func parsePlace(token string) (p place, err error) {
	if token == "" {
		return p, nil
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 && len(parts[2]) <= 64 {
		var bad error
		p.prev = parts[2]
		p.first, err = strconv.ParseUint(parts[0], 10, 64)
		p.offset, bad = strconv.ParseInt(parts[1], 10, 64)
		if err == nil && bad == nil && p.first > 0 && p.offset >= 0 {
			return p, nil
		}
	}
	return p, berth.Errorf(berth.Invalid, "next_token: %q is not a token of this log", berth.Clip(token, 64))
}

// String returns the place as a token.
func (p place) String() string { return fmt.Sprintf("%d.%d.%s", p.first, p.offset, p.prev) }

// Newest goes through the log from the newest line back, or from where a call
// before it stopped, until visit returns false, MaxScan bytes were read or the log
// begins. It checks each line and that it is the one that the line after it
// follows. next is the token of where it stopped, "" at the beginning of the log.
// A line for which visit returns false is the first of the next call.
func (l *Log) Newest(token string, visit func(Line) bool) (next string, err error) {
	from, err := parsePlace(token)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	files, err := l.aside()
	files, size := append(files, l.c.Path), l.size
	newest := l.last
	l.mu.Unlock()
	if err != nil {
		return "", err
	}
	w := &walk{visit: visit, left: MaxScan, prev: from.prev, found: token == ""}
	if w.found {
		w.prev = newest
	}
	for i := len(files) - 1; i >= 0; i-- {
		limit := int64(-1)
		if i == len(files)-1 {
			limit = size // what is written meanwhile is not looked at
		}
		stopped, err := w.file(files[i], limit, from)
		if errors.Is(err, fs.ErrNotExist) { // it was removed, because it is one too many
			return "", nil
		}
		if err != nil || stopped {
			return w.at.String(), err
		}
	}
	if !w.found {
		return "", berth.Errorf(berth.Invalid, "next_token: the part of the log that it names was removed")
	}
	return "", nil
}

// walk is a way through the log.
type walk struct {
	visit func(Line) bool
	left  int64  // bytes that may still be read
	prev  string // hash that the next line must have; "": any
	found bool   // the place where it begins
	at    place  // where it stopped
}

// file goes through one file, from its end or from the place where the walk
// begins.
func (w *walk) file(name string, size int64, from place) (stopped bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if size < 0 {
		st, err := f.Stat()
		if err != nil {
			return false, err
		}
		size = st.Size()
	}
	first, err := firstSeq(f, size)
	if err != nil {
		return false, err
	}
	if !w.found {
		if first != from.first || from.offset > size {
			return false, nil
		}
		w.found, size = true, from.offset
	}
	for size > 0 {
		line, begin, err := lineBefore(f, size)
		if err != nil {
			return false, err
		}
		if w.at = (place{first, size, w.prev}); w.left < 0 || !w.line(line) {
			return true, nil
		}
		w.left -= size - begin
		size = begin
	}
	return false, nil
}

// line checks a line and visits it. If it goes on, prev is that of the line.
func (w *walk) line(text []byte) bool {
	l, e, err := parseLine(text)
	out := Line{Seq: l.Seq, Entry: e}
	switch {
	case err != nil:
		out = Line{Problem: err.Error()}
	case w.prev != "" && l.hash != w.prev:
		out.Problem = "the line after it follows another one: lines were removed, put in or exchanged"
	}
	if !w.visit(out) {
		return false
	}
	w.prev = l.Prev
	return true
}

// firstSeq returns the number of the first line of a file; 0 if that cannot be
// read.
func firstSeq(f io.ReaderAt, size int64) (uint64, error) {
	b := make([]byte, min(size, 64<<10))
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return 0, err
	}
	var n uint64
	if _, err := fmt.Sscanf(string(b[:min(len(b), 64)]), `{"seq":%d,`, &n); err != nil {
		return 0, nil
	}
	return n, nil
}

// lineBefore returns the line that ends at an offset, and where it begins.
func lineBefore(f io.ReaderAt, end int64) (line []byte, begin int64, err error) {
	const block = 16 << 10
	var tail []byte
	for at := end; ; {
		n := min(block, at)
		b := make([]byte, n, int(n)+len(tail))
		if _, err := f.ReadAt(b, at-n); err != nil && err != io.EOF {
			return nil, 0, err
		}
		at -= n
		tail = append(b, tail...)
		text := bytes.TrimSuffix(tail, []byte("\n"))
		if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
			return text[i+1:], at + int64(i) + 1, nil
		}
		if at == 0 {
			return text, 0, nil
		}
		if len(tail) > maxLine { // no line of ours: it is shown as one that was changed
			return tail[:64], at, nil
		}
	}
}

// Matches reports whether an entry is about an operation: its name, method or
// path matches a pattern in which * stands for any text. "" matches all.
func (e *Entry) Matches(operation string) bool {
	q := &e.Payload.Request
	return operation == "" || glob(operation, q.Route) || glob(operation, q.Operation) || glob(operation, q.Endpoint)
}
