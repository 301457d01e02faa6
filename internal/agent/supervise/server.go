package supervise

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/agent/fetch"
	"berth/internal/agent/isolate"
	"berth/internal/agent/render"
	"berth/internal/agent/secretprovider"
	"berth/internal/failpoint"
	"berth/internal/saferoot"
)

const (
	readyFD      = 3                // where a spawned supervisor says that it listens
	idleAtFirst  = 30 * time.Second // nobody asked for anything: the agent died in between
	idleAtLast   = time.Minute      // nobody came for the exits: they are in the state
	maxCalls     = 128              // connections at once
	requestTime  = 10 * time.Second // to send a request or take a response
	lockWait     = 10 * time.Second // for the last supervisor to be gone
	drainTime    = 2 * time.Second  // for output after everybody who could write is dead
	terminateMax = 30 * time.Second // for tasks when the supervisor is told to end
)

// Main is a supervisor process. Its working directory is the control directory of
// an allocation, its one argument that allocation's ID; see [host] for others. It
// returns the process's exit status.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: supervise ALLOCATION, started by an agent in an allocation's "+ControlDir+" directory")
		return 2
	}
	switch args[0] {
	case render.Word:
		return render.Main()
	case fetch.Word:
		return fetch.Main()
	case secretprovider.Word:
		return secretprovider.Main()
	case pipesWord:
		return copyPipes()
	}
	if isolate.IsWord(args[0]) {
		return isolate.Main(args[0])
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	h, ready, offers, err := newHost(log)
	if err != nil {
		tell(ready, err) // the agent that started us waits for a word
		log.Error("supervisor ends", "error", err)
		return 1
	}
	if offers != nil {
		go h.take(offers)
	}
	if err := h.first(args[0], ready); err != nil {
		log.Error("no supervisor of the allocation", "alloc", args[0], "error", err)
		if offers == nil {
			return 1
		}
	}
	h.run()
	return 0
}

// server is the supervisor of one allocation.
type server struct {
	h       *host
	log     *slog.Logger
	control *saferoot.Root // the control directory
	alloc   *saferoot.Root // the allocation's directory
	sock    *net.UnixListener
	closers []io.Closer // what is closed at the end, the lock of the control directory among it

	mu    sync.Mutex
	state state            // what the control directory is to hold
	live  map[string]*proc // by task: those that have not ended
	used  bool             // something was started once
	// gone holds, by task, the number up to which no launch may start any more:
	// an agent was told that the supervisor does not know it, and has acted on
	// that.
	gone   map[string]uint64
	lease  lease
	quit   bool // somebody told us to end: exits are left in the state
	calls  int
	idle   *time.Timer   // runs while nothing lives and exits wait for the agent
	ending bool          // nothing is started any more
	end    chan struct{} // closed with ending
}

// open makes the server of an allocation, and has it listen. control is the path
// of its control directory.
func (h *host) open(control, alloc string, log *slog.Logger) (out *server, err error) {
	s := &server{h: h, log: log, live: map[string]*proc{}, gone: map[string]uint64{}, end: make(chan struct{})}
	defer func() {
		if err != nil {
			closeAll(s.closers)
		}
	}()
	if s.control, err = saferoot.Open(control); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.control)
	if s.alloc, err = saferoot.Open(control + "/.."); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, s.alloc)
	lock, err := s.becomeOnly()
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, lock)
	old, err := readState(s.control)
	if err != nil {
		log.Warn("starts without the launches of its predecessor", "alloc", alloc, "error", err)
		old = &state{}
	}
	s.state = state{Boot: BootID(), Alloc: alloc}
	for _, l := range old.Launches { // what had not ended then is for the agent to find
		if l.Exit != nil && !l.Released {
			s.state.Launches = append(s.state.Launches, l)
		}
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	return s, nil
}

// closeInherited closes every file that came with the process but the first
// three. What Go opened itself is marked to be closed on exec, and what was
// inherited cannot have been; what stays was marked by [inherited].
func closeInherited() {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	_ = d.Close()
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// becomeOnly waits until a supervisor that ends is gone. One that lives and
// listens was started by an agent that was killed over it: then we are one too
// many, which is errOther.
func (s *server) becomeOnly() (*os.File, error) {
	for end := time.Now().Add(lockWait); ; time.Sleep(5 * time.Millisecond) {
		lock, err := takeLock(s.control)
		if err == nil || !time.Now().Before(end) {
			return lock, err
		}
		if c, err := net.Dial("unix", s.control.ProcPath()+"/"+fileSocket); err == nil {
			_ = c.Close()
			return nil, errOther
		}
	}
}

// What a supervisor that has begun says; anything else is why it failed.
const (
	wordReady = "ok"
	wordOther = "another supervisor is there" // and this one ends
	wordFull  = "full"                        // another has to be asked
)

// errOther is the error of a supervisor that is one too many.
var errOther = errors.New(wordOther)

// takeLock locks a control directory, if nobody else has.
func takeLock(control *saferoot.Root) (*os.File, error) {
	f, err := control.OpenFile(fileLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err != unix.EINTR {
			_ = f.Close()
			return nil, fmt.Errorf("lock of the control directory: %w", err)
		}
	}
}

// listen opens the socket. Its path is that of the open directory: one from the
// root may be longer than a socket's address can be.
func (s *server) listen() error {
	if err := s.control.RemoveAll(fileSocket); err != nil {
		return err
	}
	path := s.control.ProcPath() + "/" + fileSocket
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	s.sock = l
	// Nobody else gets into the control directory, and callers are checked. The
	// umask is the whole process's.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return err
	}
	return nil
}

// run serves until nothing is left to do, and lets go of the control directory
// then.
func (s *server) run() error {
	// An agent that was killed right after it started us never calls.
	first := time.AfterFunc(idleAtFirst, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = true
		s.endIfIdle()
	})
	defer first.Stop()
	var wg sync.WaitGroup
	wg.Go(func() { s.accept(&wg) })
	<-s.end
	err := s.sock.Close()
	wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
	}
	if s.lease.timer != nil {
		_ = s.lease.timer.Close()
	}
	slices.Reverse(s.closers) // the lock first, while the directory is open
	closeAll(s.closers)
	return err
}

// byPID returns the running task whose first process has that number, nil if
// none has. The caller holds mu.
func (s *server) byPID(pid int) *proc {
	for _, p := range s.live {
		if p.launch.PID == pid && !p.reaped {
			return p
		}
	}
	return nil
}

// save writes the state. If the disk does not take it the tasks go on; the
// next change tries again. The caller holds mu.
func (s *server) save() error {
	if err := failpoint.Hit("supervise/save"); err != nil {
		return err
	}
	err := s.state.save(s.control)
	if err != nil {
		s.log.Warn("cannot write its state", "error", err)
	}
	return err
}
