package ship

import (
	"bytes"
	"strconv"
	"strings"

	"berth/op"
)

// liner makes lines of the frames of a stream.
type liner struct {
	at   Position // behind what was handed out
	rest []byte   // the beginning of a line
}

// add hands out the lines that a frame ends. lost is how many files went away
// unread before it.
func (l *liner) add(f *op.StreamFrame, put func(text string, at Position) error) (lost int, err error) {
	if len(f.Data) == 0 {
		if f.FileEvent == "" && len(l.rest) > 0 { // nothing has come for a while: a prompt, or the end
			return 0, l.flush(put)
		}
		return 0, nil
	}
	if f.File != l.at.File {
		lost = gap(l.at.File, f.File)
		// A line goes on in the next file, unless something between is missing.
		if lost > 0 {
			err = l.flush(put)
		}
	}
	l.at = Position{f.File, f.Offset}
	for data := f.Data; len(data) > 0 && err == nil; {
		n := bytes.IndexByte(data, '\n')
		part := data
		if n >= 0 {
			part = data[:n]
		}
		if room := MaxLine - len(l.rest); len(part) > room {
			part, n = part[:room], -1
		}
		l.rest = append(l.rest, part...)
		used := len(part)
		if n >= 0 {
			used++
		}
		l.at.Offset += int64(used)
		data = data[used:]
		if n >= 0 || len(l.rest) == MaxLine {
			err = l.flush(put)
		}
	}
	return lost, err
}

// flush hands out what there is of a line.
func (l *liner) flush(put func(text string, at Position) error) error {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(l.rest), "\r"), "\uFFFD")
	l.rest = l.rest[:0]
	if text == "" {
		return nil
	}
	return put(text, l.at)
}

// gap returns how many files are between two of one stream.
func gap(from, to string) int {
	a, b := indexOf(from), indexOf(to)
	if a < 0 || b < 0 {
		return 0
	}
	return max(0, b-a-1)
}

// indexOf returns the number at the end of a file's name, -1 if it has none.
func indexOf(file string) int {
	n, err := strconv.Atoi(file[strings.LastIndexByte(file, '.')+1:])
	if err != nil {
		return -1
	}
	return n
}
