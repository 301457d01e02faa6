// Package logs keeps the output of tasks in files and reads it back. A task's
// stdout and stderr are each a row of files, web.stdout.0, web.stdout.1 and so
// on, in the allocation's alloc/logs directory. A file that is full is never
// written again; when there are too many, those with the lowest numbers go.
// The names and the way they rotate are those of Nomad's documentation of the
// logs block, so that log shippers find what they know.
//
// A [Writer] loses no byte while the disk takes them, however slowly: it makes
// the task wait. A full disk must not hang a task, so what cannot be written
// then is counted and the gap is noted in the log.
package logs

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/saferoot"
)

// The streams of a task.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Dir is where the files are, below the allocation's directory.
const Dir = "alloc/logs"

// FileName returns the name of one file of a task's stream.
func FileName(task, stream string, index int) string {
	return task + "." + stream + "." + strconv.Itoa(index)
}

// file is one file of a stream.
type file struct {
	index int
	name  string
}

// list returns the files of a task's stream by index. A task's name may hold
// dots, so only an exact prefix and a canonical number count.
func list(dir *saferoot.Root, task, stream string) ([]file, error) {
	entries, err := dir.ReadDir(".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), task+"."+stream+".")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || strconv.Itoa(n) != digits {
			continue
		}
		out = append(out, file{n, e.Name()})
	}
	slices.SortFunc(out, func(a, b file) int { return cmp.Compare(a.index, b.index) })
	return out, nil
}

// checkStream refuses names that are not those of a log, so that nobody reads
// other files with them.
func checkStream(task, stream string) error {
	if err := saferoot.Name(task); err != nil {
		return err
	}
	if stream != Stdout && stream != Stderr {
		return berth.Errorf(berth.Invalid, "unknown log type %q: want stdout or stderr", stream)
	}
	return nil
}
