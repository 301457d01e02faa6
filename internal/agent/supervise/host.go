package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// host is the supervisor process. It runs the servers of the allocation that it
// was started for and of those that its agent hands it afterwards, so that many
// allocations share what a process costs. To its agent, and to later ones, each
// server is a supervisor of its own: only its start differs.
type host struct {
	log     *slog.Logger
	cgroups []hierarchy // hierarchies in which groups can be made; those that only limit last
	signals chan os.Signal
	end     chan struct{}

	mu      sync.Mutex // a server's mu may be held when it is taken, never the other way round
	servers map[*server]bool
	places  int             // allocations that are taken: servers, and those about to be
	pids    map[int]*server // whose the first process of a task is that was not reaped
	tasks   int             // tasks that live, are about to, or whose end is being seen to
	offers  bool            // an agent may hand over more
	closing bool            // nothing more is taken; end is closed, or is about to be
}

const (
	offersFD = 4               // over which a spawned supervisor is handed more allocations
	linger   = 2 * time.Second // how long a supervisor without an allocation waits for another
)

// offer is an allocation that an agent hands to a supervisor that runs. With it
// come two files: the control directory, and the pipe for the answer.
type offer struct {
	V     int
	Alloc string
	Most  int // allocations at which the offer is refused
}

// newHost makes this process fit to own others. ready and offers are what came
// with it; nil if it did not.
func newHost(log *slog.Logger) (h *host, ready *os.File, offers *net.UnixConn, err error) {
	h = &host{log: log, end: make(chan struct{}), servers: map[*server]bool{}, pids: map[int]*server{}, places: 1, cgroups: hierarchies()}
	ready = inherited(readyFD, "ready")
	if f := inherited(offersFD, "offers"); f != nil {
		if c, err := net.FileConn(f); err == nil {
			offers, _ = c.(*net.UnixConn)
		}
		_ = f.Close()
	}
	closeInherited()
	os.Clearenv()
	unix.Umask(0o022)
	// Processes that tasks leave behind become our children, not init's, so
	// that they can be found and reaped.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, ready, nil, fmt.Errorf("become subreaper: %w", err)
	}
	h.offers = offers != nil
	h.catch()
	return h, ready, offers, nil
}

// inherited returns a file that came with the process, nil if none did. What Go
// opened itself is marked to be closed on exec, and what was inherited cannot
// have been.
func inherited(fd int, name string) *os.File {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// first runs the allocation that the process was started for, whose control
// directory is the working directory. It returns nil if it does, or if another
// supervisor has it already.
func (h *host) first(alloc string, ready *os.File) error {
	s, err := h.open(".", alloc, h.log)
	if err == nil {
		h.mu.Lock()
		h.servers[s] = true // before it is known, so that SIGTERM finds it
		h.mu.Unlock()
	}
	tell(ready, err)
	if err != nil {
		h.mu.Lock()
		h.left()
		h.mu.Unlock()
		if errors.Is(err, errOther) {
			return nil
		}
		return err
	}
	go h.serve(s)
	return nil
}

// tell answers the agent that waits for a supervisor to listen.
func tell(ready *os.File, err error) {
	if ready == nil {
		return
	}
	if err != nil {
		fmt.Fprint(ready, err)
	} else {
		fmt.Fprint(ready, wordReady)
	}
	_ = ready.Close()
}

// serve runs a server until it ends.
func (h *host) serve(s *server) {
	h.mu.Lock()
	h.servers[s] = true
	h.mu.Unlock()
	if err := s.run(); err != nil {
		s.log.Error("supervisor ends", "alloc", s.state.Alloc, "error", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.servers, s)
	h.left()
}

// left gives a place back. Without an allocation the process ends, at once or
// when nobody hands it another for a while. The caller holds mu.
func (h *host) left() {
	h.places--
	switch {
	case h.places > 0:
	case !h.offers:
		h.close()
	default:
		time.AfterFunc(linger, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.places == 0 {
				h.close()
			}
		})
	}
}

// close ends the process. The caller holds mu.
func (h *host) close() {
	if !h.closing {
		h.closing = true
		close(h.end)
	}
}

// take takes offers until the agent that makes them is gone.
func (h *host) take(offers *net.UnixConn) {
	defer func() {
		_ = offers.Close()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.offers = false; h.places == 0 {
			h.close()
		}
	}()
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(2*4))
	for {
		n, oobn, _, _, err := offers.ReadMsgUnix(buf, oob)
		if err != nil || n == 0 {
			return
		}
		files := filesOf(oob[:oobn])
		var o offer
		if err := json.Unmarshal(buf[:n], &o); err != nil || len(files) != 2 || o.V != version {
			h.log.Warn("an offer of an agent cannot be read", "error", err, "files", len(files), "version", o.V)
			for _, f := range files {
				_ = f.Close()
			}
			continue
		}
		go h.adopt(&o, files[0], files[1])
	}
}

// filesOf returns the files that came with a message.
func filesOf(oob []byte) (out []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			out = append(out, os.NewFile(uintptr(fd), "offered"))
		}
	}
	return out
}

// adopt runs an allocation that an agent hands over.
func (h *host) adopt(o *offer, control, ready *os.File) {
	defer control.Close() // the server has it open by itself
	h.mu.Lock()
	full := h.closing || h.places >= o.Most
	if !full {
		h.places++
	}
	h.mu.Unlock()
	if full {
		tell(ready, errFull)
		return
	}
	s, err := h.openOffered(o.Alloc, control)
	tell(ready, err)
	if err == nil {
		h.serve(s)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left()
}

// openOffered opens an offered control directory. The server has a log of its
// own there.
func (h *host) openOffered(alloc string, control *os.File) (*server, error) {
	dir := fmt.Sprintf("/proc/self/fd/%d", control.Fd())
	fd, err := unix.Openat(int(control.Fd()), fileLog, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of a supervisor: %w", err)
	}
	log := os.NewFile(uintptr(fd), fileLog)
	s, err := h.open(dir, alloc, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	s.closers = append(s.closers, log)
	return s, nil
}

// catch catches the signals of the process. It is called before anybody is told
// that it is there.
func (h *host) catch() {
	h.signals = make(chan os.Signal, 16)
	signal.Notify(h.signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
}

// run waits until no allocation is left, and reaps meanwhile.
func (h *host) run() {
	for {
		select {
		case sig := <-h.signals:
			switch sig {
			case unix.SIGCHLD:
				h.reap()
			case unix.SIGTERM:
				go h.terminate()
			}
			// The others are meant for a terminal's foreground, which we left.
		case <-h.end:
			return
		}
	}
}

// terminate stops all tasks: somebody wants the supervisor itself to end.
func (h *host) terminate() {
	h.mu.Lock()
	h.offers = false
	var all []*server
	for s := range h.servers {
		all = append(all, s)
	}
	if h.places == 0 {
		h.close()
	}
	h.mu.Unlock()
	for _, s := range all {
		s.terminate()
	}
}

// fork calls start, which makes a child of this process, and notes whose it is.
func (h *host) fork(s *server, start func() (int, error)) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pid, err := start()
	if err == nil {
		h.pids[pid] = s
	}
	return pid, err
}

// count counts tasks that begin or are over.
func (h *host) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks += n
}

// alone reports whether no more than one task lives.
func (h *host) alone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tasks <= 1
}

// ended returns a child that has ended and was not reaped: any, or the one of a
// number. It returns 0 if no such child has ended.
func ended(of, pid int) int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(of, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0
		}
		// si_pid follows three ints, aligned as a pointer is.
		const at = 8 + unsafe.Sizeof(uintptr(0))
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
	}
}

// reap takes the status of every child that ended.
func (h *host) reap() {
	for {
		pid := ended(unix.P_ALL, 0)
		if pid == 0 {
			return
		}
		h.mu.Lock()
		s := h.pids[pid]
		if s == nil { // left behind by a task: fork would have noted it
			_ = reapOne(pid)
		}
		h.mu.Unlock()
		if s != nil {
			h.reapTask(s, pid)
		}
	}
}

// reapTask takes the status of a task. It is killed with all its processes before
// its own number is free for others.
func (h *host) reapTask(s *server, pid int) {
	s.mu.Lock() // a start of it that is under way reaps it by itself if it fails
	defer s.mu.Unlock()
	h.mu.Lock()
	if h.pids[pid] != s || ended(unix.P_PID, pid) != pid {
		h.mu.Unlock()
		return
	}
	// Not reaped yet, its number cannot be another's, so the whole process
	// group can be killed by it.
	_ = unix.Kill(-pid, unix.SIGKILL)
	status := reapOne(pid)
	delete(h.pids, pid)
	h.mu.Unlock()
	if p := s.byPID(pid); p != nil {
		p.ended(status)
	}
}

// reapOne takes the status of a child that has ended.
func reapOne(pid int) (status unix.WaitStatus) {
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			return status
		}
	}
}

// discard kills and reaps a child whose start has failed. The caller holds the
// server's mu.
func (h *host) discard(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = reapOne(pid)
	delete(h.pids, pid)
}

// closeAll closes what a server had open, at its end.
func closeAll(all []io.Closer) {
	for _, c := range all {
		_ = c.Close()
	}
}
