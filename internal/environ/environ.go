// Package environ reads the environment of a running process, even while it is
// executing a new program.
package environ

import (
	"bytes"
	"io"
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
	buf := make([]byte, 4096)
	for end, pause := time.Now().Add(wait), 50*time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		before := program(dir)
		n, err := readOnce(dir+"/environ", buf)
		switch {
		case err != nil:
			return nil
		case n == len(buf): // there may be more
			buf = make([]byte, 4*len(buf))
			continue
		case n > 0:
			return buf[:n]
		}
		if _, err := os.Readlink(dir + "/exe"); err != nil { // a thread of the kernel, or it has ended
			return nil
		}
		if before != "" && before == program(dir) || time.Now().After(end) {
			return nil
		}
		time.Sleep(pause)
	}
}

// readOnce reads a file by a single call. A second one would not go on in the
// same environment: it finds nothing once the process has executed a program.
func readOnce(name string, buf []byte) (int, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.Read(buf)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// program tells one program that a process executes from another, by the address
// at which its environment ends: stacks begin at random addresses. It is "" while
// a program is not set up yet. The kernel knows where its code begins after its
// environment is complete. These are fields 26 and 51 of proc_pid_stat(5).
func program(dir string) string {
	b, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return ""
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the second field is a name that may hold anything
	if len(f) < 49 || string(f[23]) == "0" || string(f[48]) == "0" {
		return ""
	}
	return string(f[48])
}
