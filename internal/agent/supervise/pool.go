package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Pool is the supervisor processes that an agent has started. Each takes several
// allocations. The agent after it leaves them alone: they end with their last
// allocation, and new ones go to processes of its own, which are of its release.
type Pool struct {
	most int

	mu  sync.Mutex
	all []*shared
}

// shared is a supervisor that takes more allocations.
type shared struct{ offers *net.UnixConn }

// NewPool returns a Pool whose processes take at most that number of allocations. It is nil,
// which gives each allocation a process of its own, where tasks cannot have
// cgroups: then it is by their parent that processes are found that tasks have
// left behind.
func NewPool(most int) *Pool {
	if most <= 1 || os.Geteuid() != 0 || len(hierarchies()) == 0 {
		return nil
	}
	return &Pool{most: most}
}

// Close tells all processes that no more allocations come. Those without one
// end, the others go on.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.all {
		_ = h.offers.Close()
	}
	p.all = nil
}

// Share has the directory's supervisor be one of the pool's; nil is a process of
// its own. It is called before anything else.
func (d *Dir) Share(p *Pool) { d.pool = p }

// errFull says that a supervisor takes no more allocations.
var errFull = errors.New(wordFull)

// place has a supervisor of the pool take the directory, or starts one for it.
func (p *Pool) place(d *Dir) error {
	tried := map[*shared]bool{}
	for {
		p.mu.Lock()
		var h *shared
		for _, x := range p.all {
			if !tried[x] {
				h = x
				break
			}
		}
		if h == nil {
			// Others wait, and find room in it.
			ready, h, err := d.begin(true)
			if err == nil {
				p.all = append(p.all, h)
			}
			p.mu.Unlock()
			if err != nil {
				return err
			}
			return listens(ready)
		}
		p.mu.Unlock()
		tried[h] = true
		switch err := h.take(d, p.most); {
		case err == nil:
			return nil
		case errors.Is(err, errGone):
			p.drop(h)
		case !errors.Is(err, errFull):
			return err
		}
	}
}

// drop forgets a supervisor that has ended.
func (p *Pool) drop(h *shared) {
	_ = h.offers.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.all {
		if x == h {
			p.all = append(p.all[:i:i], p.all[i+1:]...)
			return
		}
	}
}

// errGone says that a supervisor has ended.
var errGone = errors.New("the supervisor has ended")

// take offers the directory to the supervisor. errFull and errGone say that
// another has to be asked.
func (h *shared) take(d *Dir, most int) error {
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	defer theirs.Close()
	control, err := os.Open(d.control.ProcPath())
	if err != nil {
		return err
	}
	defer control.Close()
	b, err := json.Marshal(offer{V: version, Alloc: d.alloc, Most: most})
	if err != nil {
		return err
	}
	if _, _, err := h.offers.WriteMsgUnix(b, unix.UnixRights(int(control.Fd()), int(theirs.Fd())), nil); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	_ = theirs.Close()
	return listens(ready)
}

// listens waits until a supervisor says that it listens, or that another does.
func listens(ready *os.File) error {
	defer ready.Close()
	_ = ready.SetReadDeadline(time.Now().Add(lockWait + callTime))
	word, err := io.ReadAll(io.LimitReader(ready, 4096))
	switch {
	case err == nil && (string(word) == wordReady || string(word) == wordOther):
		return nil
	case err == nil && string(word) == wordFull:
		return errFull
	case err == nil && len(word) == 0:
		err = errGone
	case err == nil:
		err = fmt.Errorf("%q", word)
	}
	return fmt.Errorf("a supervisor does not start: %w", err)
}

// offersPair makes the two ends over which allocations are handed over.
func offersPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "offers"), os.NewFile(uintptr(fds[1]), "offers")
	defer near.Close()
	c, err := net.FileConn(near)
	if err == nil {
		if u, ok := c.(*net.UnixConn); ok {
			return u, far, nil
		}
		err = fmt.Errorf("a socket pair is a %T", c)
	}
	_ = far.Close()
	return nil, nil, err
}
