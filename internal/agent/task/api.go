package task

import (
	"context"
	"net"
	"os"

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

// makeAPI makes the socket of the Task API.
func makeAPI(_ context.Context, at *attempt) error {
	if at.openAPI == nil {
		return nil
	}
	return at.openAPI()
}
