package consensus

import (
	"sync"
	"time"

	"berth/internal/limit"

	"github.com/hashicorp/raft"
)

// While a leader sends a snapshot, and the receiver restores it, the log goes
// on. When raft shortens the log meanwhile, as it does after each snapshot of
// its own, the receiver lacks the entries after the one it got, needs another
// snapshot, and may never catch up. So the leader keeps the log from the
// snapshot that it sends until the receiver is so close to the end that the
// entries that are kept in any case are enough.

const (
	holdIdle   = 2 * time.Minute // a receiver that takes nothing for this long is given up
	holdMargin = 8192            // entries sent and not answered; more than a pipeline holds
)

// heldLimit is declared here; its value is half of the disk's free space beyond
// the reserve.
var heldLimit = limit.Declare(limit.Info{
	Name: "raft_log_held", Of: "Bytes of the Raft log that a leader keeps for a server that receives a snapshot: half of the free disk space beyond the reserve",
	Unit: limit.Bytes, Beyond: "the log is shortened; that server needs another snapshot",
})

// holds are the parts of the log that are kept for other servers.
type holds struct {
	mu       sync.Mutex
	byServer map[raft.ServerID]*hold
}

// hold is the part of the log that is kept for one server.
type hold struct {
	from    uint64    // the first entry that it may need
	sending int       // snapshots on their way to it
	active  time.Time // when it was last sent something
}

// begin keeps the log from the last entry of a snapshot that is about to be sent.
// Raft needs the term of that entry, too.
func (h *holds) begin(id raft.ServerID, snapshot uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byServer == nil {
		h.byServer = map[raft.ServerID]*hold{}
	}
	x := h.byServer[id]
	if x == nil {
		x = &hold{}
		h.byServer[id] = x
	}
	x.from, x.active = snapshot, time.Now()
	x.sending++
}

// sent records the end of a snapshot's way. After a failure nothing is kept:
// the next snapshot begins again.
func (h *holds) sent(id raft.ServerID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.byServer[id]
	if x == nil {
		return
	}
	x.sending--
	x.active = time.Now()
	if err != nil && x.sending == 0 {
		delete(h.byServer, id)
	}
}

// progress records that entries after prev were sent to a server.
func (h *holds) progress(id raft.ServerID, prev uint64) {
	if prev <= holdMargin { // also heartbeats
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if x := h.byServer[id]; x != nil {
		x.from, x.active = max(x.from, prev-holdMargin), time.Now()
	}
}

// first returns the first entry that must be kept, given how many entries are
// kept in any case before the last one; ok is false if nothing must be.
func (h *holds) first(last, trailing uint64) (from uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, x := range h.byServer {
		switch near := x.from+trailing/2 > last; {
		case x.sending == 0 && (near || time.Since(x.active) > holdIdle):
			delete(h.byServer, id)
		case !ok || x.from < from:
			from, ok = x.from, true
		}
	}
	return from, ok
}

// keep returns the end of the range that may be deleted of the log's begin: not
// more than high, and nothing that another server needs, as long as the disk
// has space for that.
func (d *disk) keep(high uint64) uint64 {
	last, err := d.LastIndex()
	if err != nil || high >= last { // the log is emptied, because a snapshot replaces it
		return high
	}
	from, ok := d.holds.first(last, d.trailing)
	if !ok || from > high {
		return high
	}
	free, reserve, _ := d.guard.look()
	_, size, err := d.Bytes()
	most := int64(min(free-min(free, reserve), 1<<62) / 2)
	if err != nil {
		return high
	}
	heldLimit.Use(size, most)
	if size > most {
		heldLimit.Refuse()
		return high
	}
	return from - 1
}
