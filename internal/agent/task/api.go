package task

import (
	"context"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/saferoot"
)

// The Task API: the HTTP API of the agent on a socket in the task's directory of
// secrets, for tasks that cannot reach the agent's port. It is there before the
// task starts, and again after a restart of the agent.

// apiSocket is the name of the socket in the directory of secrets.
const apiSocket = "api.sock"

// openAPI makes the socket of the task and has it served. One from before is
// closed.
func (r *Runner) openAPI() error {
	if r.c.API == nil {
		return nil
	}
	ln, err := listenIn(r.c.AllocDir, r.c.Name)
	if err != nil {
		return onDisk(err)
	}
	r.mu.Lock()
	old := r.api
	r.api = ln
	r.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	go r.c.API(ln) // ends with the listener
	return nil
}

// closeAPI closes the socket.
func (r *Runner) closeAPI() {
	r.mu.Lock()
	ln := r.api
	r.api = nil
	r.mu.Unlock()
	if ln != nil {
		_ = ln.Close()
	}
}

// listenIn listens on the socket of a task. The paths go through open directories,
// so they can be longer than a socket's address, and what the task puts in their
// place does not matter. The socket is made where only the agent writes, since its
// permissions are set by name, and then moved.
func listenIn(alloc *saferoot.Root, name string) (net.Listener, error) {
	secrets, err := alloc.Sub(name + "/secrets")
	if err != nil {
		return nil, err
	}
	defer secrets.Close()
	if elsewhere, err := onAnother(alloc, secrets); err != nil || elsewhere {
		if err != nil {
			return nil, err
		}
		return listenHere(secrets)
	}
	made := ".api." + name
	if err := alloc.RemoveAll(made); err != nil {
		return nil, err
	}
	at := alloc.ProcPath() + "/" + made
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	// Its directory keeps others than the task out.
	err = os.Chmod(at, 0o666)
	if err == nil {
		if err = secrets.RemoveAll(apiSocket); err == nil {
			err = os.Rename(at, secrets.ProcPath()+"/"+apiSocket)
		}
	}
	if err != nil {
		_ = ln.Close()
		return nil, berth.Errorf(berth.Unavailable, "secrets/%s: %w", apiSocket, err)
	}
	return ln, nil
}

// onAnother reports whether a directory is on another file system than that of the
// allocation, so that nothing can be moved there.
func onAnother(alloc, dir *saferoot.Root) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Stat(alloc.ProcPath(), &a); err != nil {
		return false, os.NewSyscallError("stat", err)
	}
	if err := unix.Stat(dir.ProcPath(), &b); err != nil {
		return false, os.NewSyscallError("stat", err)
	}
	return a.Dev != b.Dev, nil
}

// listenHere listens on the socket of a task in secrets that are a file system of
// their own. What the task puts in the place of the socket meanwhile is its own: no
// name there leads to a file of another.
func listenHere(secrets *saferoot.Root) (net.Listener, error) {
	if err := secrets.RemoveAll(apiSocket); err != nil {
		return nil, err
	}
	at := secrets.ProcPath() + "/" + apiSocket
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at})
	if err != nil {
		return nil, err
	}
	ln.SetUnlinkOnClose(false)
	fd, err := unix.Open(at, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			err = unix.ENOTSOCK
		}
		if err == nil {
			err = os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o666)
		}
	}
	if err != nil {
		_ = ln.Close()
		return nil, berth.Errorf(berth.Unavailable, "secrets/%s: %w", apiSocket, err)
	}
	return ln, nil
}

// makeAPI makes the socket of the Task API.
func makeAPI(_ context.Context, at *attempt) error {
	if at.openAPI == nil {
		return nil
	}
	return at.openAPI()
}
