package audit

import (
	"bufio"
	"bytes"
	"io"
	"os"

	"berth"
)

// Chain is what was found of lines that belong together.
type Chain struct {
	Lines       int
	First, Last uint64 // numbers of the first and last line
	Prev, Hash  string // the hash before the first line, "" if nothing came before it; and that of the last
}

// Verify checks the files of an audit log, which are in order: each line's own
// hash, that it follows the one before, and that none is missing. The error names
// the file and line.
func Verify(files ...string) (c Chain, err error) {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return c, err
		}
		err = c.read(name, f)
		_ = f.Close()
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// read checks the lines of one file.
func (c *Chain) read(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err == io.EOF {
			return berth.Errorf(berth.Invalid, "%s:%d: the line is not whole: the machine crashed while it was written, or the end was cut off", name, n)
		}
		if err != nil {
			return err
		}
		if err := c.add(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return berth.Errorf(berth.Invalid, "%s:%d: %w", name, n, err)
		}
	}
}

// add checks the next line.
func (c *Chain) add(line []byte) error {
	l, _, err := parseLine(line)
	switch {
	case err != nil:
		return err
	case c.Lines == 0:
		c.First, c.Prev = l.Seq, l.Prev
	case l.Seq != c.Last+1:
		return berth.Errorf(berth.Invalid, "line %d of the log follows line %d: lines are missing, or in another order", l.Seq, c.Last)
	case l.Prev != c.Hash:
		return berth.Errorf(berth.Invalid, "line %d of the log does not follow the line before it: one of them was exchanged", l.Seq)
	}
	c.Lines++
	c.Last, c.Hash = l.Seq, l.hash
	return nil
}
