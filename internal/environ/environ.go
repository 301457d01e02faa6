// Package environ reads the environment of a running process, even while it is
// executing a new program.
package environ

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// wait is how long a process may take to execute a program before Of gives up. It
// takes long when the program is read from a slow disk.
const wait = 2 * time.Second

// Of returns the environment that a process was started with, with a zero byte
// after each variable as in /proc. It is nil if the process has none, has ended,
// or belongs to the kernel or to somebody whose environment is not readable.
//
// A process that executes a program has no environment from the moment its
// memory is replaced until that of the program is set up. Of waits for this, for
// up to 2 s.
func Of(pid int) []byte {
	dir := "/proc/" + strconv.Itoa(pid)
	for end, pause := time.Now().Add(wait), 50*time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		before := envEnd(dir)
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || len(env) > 0 {
			return env
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil { // a thread of the kernel, or it has ended
			return nil
		}
		if before != "0" && before == envEnd(dir) || time.Now().After(end) {
			return nil
		}
		time.Sleep(pause)
	}
}

// envEnd is the address at which the environment of a process ends, field 51 of
// proc_pid_stat(5). It is "0" while a program is not set up yet. Two programs that
// a process executes have different ones, because their stacks begin at random
// addresses.
func envEnd(dir string) string {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return ""
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the second field is a name that may hold anything
	if len(f) < 49 {
		return ""
	}
	return string(f[48])
}
