// Package isolate runs a program apart from the machine: with namespaces, a
// file tree, devices and a process list of its own, without capabilities, and
// with a short list of system calls. docs/isolation.md says what that holds and
// what not.
//
// Between fork and exec Go cannot run code of ours. So the parent starts this
// executable again ([Command]), in new namespaces, and [Main] builds the rest
// there: it mounts, gives up its rights, and becomes the program. Everything
// that is particular to a thread is done on the one that becomes it.
package isolate

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"berth"
)

// The words that tell Main what to do. They stand in the place of an
// allocation's ID, which never begins so.
const (
	WordSetup = "@isolate" // become a task
	WordEnter = "@enter"   // run a command beside a task
)

// The files that a process which runs Main has beside the first three.
const (
	configFD = 3 // its orders: a Setup, or an Enter and then sizes of the terminal
	statusFD = 4 // where it tells what became of them
)

// Spec says how a program is kept from the machine.
type Spec struct {
	Root     string // the task's directory, absolute; it becomes the root of the program's tree
	Binds    []Bind // what of the host is in the tree, read-only
	Alloc    string // directory that is /alloc in the tree, absolute
	Mounts   []Mount
	Devices  []Bind            // device nodes of the host that it may use as far as its user may
	Hostname string            // "" for the host's
	Files    map[string]string // text of files in /etc that are not the host's: "hosts", "resolv.conf"
	NetNS    string            // path of the network namespace; "" for the host's
	HostPID  bool              // it sees the processes of the host
	HostIPC  bool              // it sees the shared memory and queues of the host

	Capabilities []string // that it has, as CAP_NET_BIND_SERVICE; see [Capabilities]
	WorkDir      string   // absolute, in the tree
	OOMScoreAdj  int      // -1000 to 1000
}

// Bind is a file or directory of the host at a place of the tree.
type Bind struct{ Source, Destination string }

// Mount is a directory of the host that is mounted into the tree. Propagation is
// "private", "host-to-task" or "bidirectional"; "" is private.
type Mount struct {
	Source, Destination string
	ReadOnly            bool
	Propagation         string
}

// Identity is who a program runs as.
type Identity struct {
	UID, GID uint32
	Groups   []uint32
}

// Setup is the order to become a task.
type Setup struct {
	Spec    *Spec
	User    Identity
	Command string // absolute path, path below the root, or name in the PATH of Env
	Args    []string
	Env     []string
}

// Result is what Main tells of an order. Of a Setup there is one only if it
// failed.
type Result struct {
	Kind    berth.Kind `json:",omitempty"`
	Err     string     `json:",omitempty"`
	Started bool       `json:",omitempty"` // of an Enter: the command runs
	Code    int        `json:",omitempty"` // of an Enter that has ended
}

// Error returns the error that a result tells of, or nil.
func (r *Result) Error() error {
	switch {
	case r.Err == "":
		return nil
	case r.Kind != "":
		return berth.Errorf(r.Kind, "%s", r.Err)
	}
	return fmt.Errorf("%s", r.Err)
}

// IsWord reports whether an argument is a word for Main.
func IsWord(arg string) bool { return strings.HasPrefix(arg, "@") }

// Flags returns the namespaces that the parent has to make when it starts Main.
func (s *Spec) Flags() uintptr {
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS)
	if !s.HostPID {
		flags |= unix.CLONE_NEWPID
	}
	if !s.HostIPC {
		flags |= unix.CLONE_NEWIPC
	}
	return flags
}

// Main does what the word says and returns the exit status of the process. For
// WordSetup it returns only if that failed.
func Main(word string) int {
	orders := json.NewDecoder(os.NewFile(configFD, "orders"))
	status := os.NewFile(statusFD, "status")
	unix.CloseOnExec(configFD)
	unix.CloseOnExec(statusFD)
	var err error
	switch word {
	case WordSetup:
		err = setup(orders)
	case WordEnter:
		err = enter(orders, status)
	default:
		err = berth.Errorf(berth.Invalid, "there is no order %q", word)
	}
	if err != nil {
		tell(status, Result{Kind: berth.KindOf(err), Err: err.Error()})
		return 1
	}
	return 0
}

// tell writes a result. Nobody is left to be told of a failure.
func tell(w io.Writer, r Result) { _ = json.NewEncoder(w).Encode(r) }
