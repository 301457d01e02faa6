package isolate

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"berth"
)

// lasting are errors about a file or program that are there again at the next try,
// unless somebody changes the job, the file or the node.
var lasting = []unix.Errno{
	unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.EACCES, unix.EPERM, unix.ENOEXEC, unix.ELIBBAD, unix.E2BIG, unix.EINVAL,
}

// Refused makes an error like [fmt.Errorf], about a file or program that a job
// names. It is of kind Invalid if the next try would fail alike. Others have no
// kind: a lack of memory or processes, or a file that is being written, may be gone
// by then.
func Refused(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if slices.ContainsFunc(lasting, func(e unix.Errno) bool { return errors.Is(err, e) }) {
		return berth.Errorf(berth.Invalid, "%w", err)
	}
	return err
}
