package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/agent/isolate"
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

// Main is the supervisor process of one allocation. Its working directory is
// the control directory, its one argument the allocation's ID. It returns the
// process's exit status.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: supervise ALLOCATION, started by an agent in an allocation's "+ControlDir+" directory")
		return 2
	}
	if isolate.IsWord(args[0]) {
		return isolate.Main(args[0])
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, ready, err := prepare(args[0], log)
	if err == nil {
		err = s.listen()
	}
	// The agent that started us waits for this word.
	if ready != nil {
		if err != nil {
			fmt.Fprint(ready, err)
		} else {
			fmt.Fprint(ready, wordReady)
		}
		_ = ready.Close()
	}
	// Another supervisor is there already, which is as good.
	if errors.Is(err, errOther) {
		return 0
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		log.Error("supervisor ends", "alloc", args[0], "error", err)
		return 1
	}
	return 0
}

// server is the supervisor.
type server struct {
	log     *slog.Logger
	control *saferoot.Root // the control directory
	alloc   *saferoot.Root // the allocation's directory
	lock    *os.File       // held while we live
	sock    *net.UnixListener
	cgroups []hierarchy // hierarchies in which groups can be made; those that only limit last

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

// prepare makes this process fit to own others.
func prepare(alloc string, log *slog.Logger) (s *server, ready *os.File, err error) {
	closeInherited(readyFD)
	if _, err := unix.FcntlInt(readyFD, unix.F_GETFD, 0); err == nil {
		unix.CloseOnExec(readyFD)
		ready = os.NewFile(readyFD, "ready")
	}
	os.Clearenv()
	unix.Umask(0o022)
	// Processes that tasks leave behind become our children, not init's, so
	// that they can be found and reaped.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, ready, fmt.Errorf("become subreaper: %w", err)
	}
	s = &server{log: log, live: map[string]*proc{}, gone: map[string]uint64{}, end: make(chan struct{}), cgroups: hierarchies()}
	if s.control, err = saferoot.Open("."); err != nil {
		return nil, ready, err
	}
	if s.alloc, err = saferoot.Open(".."); err != nil {
		return nil, ready, err
	}
	if s.lock, err = s.becomeOnly(); err != nil {
		return nil, ready, err
	}
	old, err := readState(s.control)
	if err != nil {
		log.Warn("starts without the launches of its predecessor", "alloc", alloc, "error", err)
		old = &state{}
	}
	s.state = state{Boot: bootID(), Alloc: alloc}
	for _, l := range old.Launches { // what had not ended then is for the agent to find
		if l.Exit != nil && !l.Released {
			s.state.Launches = append(s.state.Launches, l)
		}
	}
	return s, ready, nil
}

// closeInherited closes every file that came with the process but the first
// three and keep. What Go opened itself is marked to be closed on exec, and
// what was inherited cannot have been.
func closeInherited(keep int) {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(-1)
	_ = d.Close()
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || fd < 3 || fd == keep {
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
		if c, err := net.Dial("unix", fileSocket); err == nil {
			_ = c.Close()
			return nil, errOther
		}
	}
}

// What a supervisor that has begun says; anything else is why it failed.
const (
	wordReady = "ok"
	wordOther = "another supervisor is there" // and this one ends
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

// listen opens the socket. Its path is relative: one from the root may be
// longer than a socket's address can be.
func (s *server) listen() error {
	if err := s.control.RemoveAll(fileSocket); err != nil {
		return err
	}
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fileSocket, Net: "unix"})
	s.sock = l
	return err
}

// run serves until nothing is left to do.
func (s *server) run() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
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
	// A child may have ended before the signals were caught.
	s.reap()
	for {
		select {
		case sig := <-signals:
			switch sig {
			case unix.SIGCHLD:
				s.reap()
			case unix.SIGTERM:
				wg.Go(s.terminate)
			}
			// The others are meant for a terminal's foreground, which we left.
		case <-s.end:
			err := s.sock.Close()
			wg.Wait()
			s.mu.Lock()
			if s.lease.timer != nil {
				_ = s.lease.timer.Close()
			}
			s.mu.Unlock()
			return err
		}
	}
}

// reap takes the status of every child that ended. A task is killed with all
// its processes before its own number is free for others.
func (s *server) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		// si_pid follows three ints, aligned as a pointer is.
		const at = 8 + unsafe.Sizeof(uintptr(0))
		pid := int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), at)))
		if err != nil || pid == 0 {
			return
		}
		// Not reaped yet, its number cannot be another's, so the whole process
		// group can be killed by it.
		p := s.byPID(pid)
		if p != nil {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil && err != unix.EINTR {
			return
		}
		if p != nil {
			p.ended(status)
		}
	}
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
