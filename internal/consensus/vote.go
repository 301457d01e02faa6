package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/internal/durable"
	"berth/internal/state"
	"berth/op"

	"github.com/hashicorp/raft"
)

// Servers vote on what the state is. Each tells the others the hashes of its
// state at the newest checks, and the log entry that it cannot apply, if there
// is one. The majority of the voters in Raft's configuration is right:
//
//   - A server whose hash differs from that of a majority stops, and is refilled
//     at its next start. If it leads, the others elect one of them. So the data
//     of a majority is never set aside, no matter which server leads.
//   - If states differ and no hash has a majority, nobody sets anything aside.
//     No term begins until there is a majority again, because a server came back
//     or because an operator decided. Raft itself goes on, so a server that comes
//     back gets the log that it needs to vote.
//   - An entry that this server cannot apply waits for the votes about it. If a
//     majority applied it, this server is refilled. If a majority cannot apply
//     it while another server did, the one that did is wrong; the entry is void.

const (
	keptHashes   = 8                // checks for which a server remembers its hash
	keptVoid     = 256              // void entries that a server remembers
	askEvery     = time.Second      // while a vote is open
	askTimeout   = 2 * time.Second  // for one server's ballot
	contestAfter = 10 * time.Second // without a majority this long, terms end: slow servers are given time to hash
	sayEvery     = time.Minute      // how often an open question is logged again
)

// errContested keeps a term from beginning, and ends it.
var errContested = fmt.Errorf("%w: the servers' states differ and no majority agrees", state.ErrLost)

// errHalted is the result of an entry whose vote was given up, because raft is
// being shut down or a snapshot that includes the entry follows. Nothing is
// applied after it until then.
var errHalted = errors.New("entries wait for a restart of raft or a snapshot")

// voter takes part in votes.
type voter struct {
	server *Server
	wake   chan struct{} // holds a token while there may be something to vote on
	over   chan struct{} // closed when run has returned

	mu        sync.Mutex
	hashes    []op.CheckedHash // of the newest checks, oldest first
	settled   uint64           // the newest check for which a majority has this server's hash
	disputed  *dispute         // the entry that this server cannot apply; nil if none
	accused   []uint64         // entries that another server cannot apply, and this one did, until that is decided
	void      []uint64         // entries that a majority could not apply
	since     time.Time        // when a difference without a majority was first seen
	said      time.Time        // when it was logged last
	contested chan struct{}    // not nil while no term may begin; closed then
	reason    error            // why
}

// dispute is an entry that this server cannot apply.
type dispute struct {
	index uint64
	err   error
	done  chan error // holds one: nil if the entry is void
}

func newVoter(s *Server) *voter {
	return &voter{server: s, wake: make(chan struct{}, 1), over: make(chan struct{})}
}

// hashed records this server's hash at a check.
func (v *voter) hashed(c state.Check) {
	v.mu.Lock()
	v.hashes = append(v.hashes, op.CheckedHash{Index: c.Index, Hash: c.Hash})
	v.hashes = v.hashes[max(0, len(v.hashes)-keptHashes):]
	v.mu.Unlock()
	v.signal()
}

// replaced forgets what was known of a state that a snapshot replaced.
func (v *voter) replaced() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hashes, v.accused = nil, nil
	v.agree(0)
}

// signal wakes run. It never blocks.
func (v *voter) signal() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// Ballot returns what this server tells the others about its state.
func (s *Server) Ballot() op.Ballot {
	out := op.Ballot{Server: s.config.ID, Applied: s.fsm.applied.Load()}
	if s.voter == nil {
		return out
	}
	v := s.voter
	v.mu.Lock()
	defer v.mu.Unlock()
	out.Hashes, out.Void = slices.Clone(v.hashes), slices.Clone(v.void)
	if v.disputed != nil {
		out.Disputed = v.disputed.index
	}
	return out
}

// Exchange receives the ballot of another server and returns this server's. If
// the two disagree this server asks the others, too.
func (s *Server) Exchange(theirs op.Ballot) op.Ballot {
	own := s.Ballot()
	if v := s.voter; v != nil {
		v.mu.Lock()
		if e := theirs.Disputed; e != 0 && e <= own.Applied && own.Disputed == 0 && !slices.Contains(own.Void, e) {
			v.accuse(e)
		}
		for _, h := range own.Hashes {
			// Others may have another hash by now, so look again. A vote that is
			// open is repeated anyway: two servers must not wake each other forever.
			if hash, ok := hashAt(theirs, h.Index); ok && hash != h.Hash && v.settled >= h.Index {
				v.settled = h.Index - 1
				v.signal()
			}
		}
		v.mu.Unlock()
	}
	return own
}

// hashAt returns a server's hash at a check.
func hashAt(b op.Ballot, index uint64) (hash uint64, ok bool) {
	for _, h := range b.Hashes {
		if h.Index == index {
			return h.Hash, true
		}
	}
	return 0, false
}

// run holds votes until ctx ends.
func (v *voter) run(ctx context.Context) {
	defer close(v.over)
	again := time.NewTimer(askEvery)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-v.wake:
		case <-again.C:
		case <-ctx.Done():
			return
		}
		if v.open() {
			v.round(ctx)
		}
		if v.open() {
			again.Reset(askEvery)
		}
	}
}

// open reports whether there is something to vote on.
func (v *voter) open() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.server.fsm.failure() == nil && (v.disputed != nil || len(v.accused) > 0 || len(v.hashes) > 0 && v.hashes[len(v.hashes)-1].Index > v.settled)
}

// round asks the other voters once and acts on what they say.
func (v *voter) round(ctx context.Context) {
	voters, ballots := v.collect(ctx)
	if ctx.Err() != nil || len(voters) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.judgeDispute(voters, ballots)
	v.judgeAccused(voters, ballots)
	v.judgeHash(voters, ballots)
}

// collect returns the IDs of the voters and the ballots of those that answered,
// this server's own included if it votes.
func (v *voter) collect(ctx context.Context) (voters []string, ballots []op.Ballot) {
	s := v.server
	own := s.Ballot()
	var peers []Peer
	for _, p := range s.raft().GetConfiguration().Configuration().Servers {
		if p.Suffrage == raft.Voter {
			voters = append(voters, string(p.ID))
			peers = append(peers, Peer{ID: string(p.ID), Address: string(p.Address), Voter: true})
		}
	}
	answers := make([]op.Ballot, len(peers)) // without a server where none answered
	var asked sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for i, p := range peers {
		switch {
		case p.ID == s.config.ID:
			answers[i] = own
		case s.config.Exchange != nil:
			asked.Go(func() {
				if b, err := s.config.Exchange(ctx, p, own); err == nil && b.Server == p.ID {
					answers[i] = b
				}
			})
		}
	}
	asked.Wait()
	return voters, slices.DeleteFunc(answers, func(b op.Ballot) bool { return b.Server == "" })
}

// majority returns how many of n voters are one.
func majority(n int) int { return n/2 + 1 }

// tally is the count of a vote on hashes.
type tally struct {
	agree    []string // IDs of the voters with this server's hash
	differ   []string // IDs of those with another
	winner   uint64   // the hash of a majority
	decided  bool     // there is a majority
	minority bool     // and it has another hash than this server
}

// count counts the hashes at a check, at which this server has the hash own.
func count(index, own uint64, voters int, ballots []op.Ballot) (t tally) {
	votes := map[uint64]int{}
	for _, b := range ballots {
		hash, ok := hashAt(b, index)
		if !ok {
			continue
		}
		if votes[hash]++; votes[hash] >= majority(voters) {
			t.winner, t.decided = hash, true
		}
		if hash == own {
			t.agree = append(t.agree, b.Server)
		} else {
			t.differ = append(t.differ, b.Server)
		}
	}
	t.minority = t.decided && t.winner != own
	return t
}

// judgeHash compares the newest hash of this server with the others'. The
// caller holds v.mu.
func (v *voter) judgeHash(voters []string, ballots []op.Ballot) {
	if len(v.hashes) == 0 {
		return
	}
	own := v.hashes[len(v.hashes)-1]
	log := v.server.config.Logger
	switch t := count(own.Index, own.Hash, len(voters), ballots); {
	case own.Index <= v.settled:
	case t.minority:
		v.server.differs(fmt.Errorf("%w: at index %d its hash is %016x, but a majority (%s) has %016x; "+
			"this server stops taking part and is refilled from the leader at its next start",
			ErrDiffers, own.Index, own.Hash, strings.Join(t.differ, ", "), t.winner))
	case t.decided:
		if len(t.differ) > 0 {
			log.Error("the state of another server differs from that of the majority, to which this server belongs", "index", own.Index, "differ", t.differ)
		}
		v.agree(own.Index)
	case len(t.differ) == 0 && len(ballots) >= majority(len(voters)): // the one that differed is being refilled
		v.agree(0)
	case len(t.differ) > 0:
		v.contest(fmt.Errorf("at index %d this server's state has hash %016x, and that of %s another; of %d voters no %d agree",
			own.Index, own.Hash, strings.Join(t.differ, ", "), len(voters), majority(len(voters))))
	}
}

// agree ends the vote on a check: terms may begin again. The caller holds v.mu.
func (v *voter) agree(index uint64) {
	v.settled, v.since = max(v.settled, index), time.Time{}
	if v.contested != nil {
		close(v.contested)
		v.contested, v.reason = nil, nil
		v.server.config.Logger.Info("the servers agree on the state again: writes are accepted")
	}
}

// contest ends the term if a difference lasts without a majority. The caller
// holds v.mu.
func (v *voter) contest(reason error) {
	now := time.Now()
	if v.since.IsZero() {
		v.since = now
	}
	if now.Sub(v.since) < contestAfter {
		return
	}
	if v.contested == nil {
		v.contested, v.reason = make(chan struct{}), reason
		if end := v.server.end.Load(); end != nil {
			(*end)(errContested)
		}
	}
	v.say("no writes are accepted: the servers' states differ and no majority agrees; start the servers that are down, "+
		"or decide which server is right (docs/cluster.md, Recovery)", reason)
}

// say logs an open question now and then. The caller holds v.mu.
func (v *voter) say(text string, reason error) {
	if now := time.Now(); v.said.IsZero() || now.Sub(v.said) >= sayEvery {
		v.said = now
		v.server.config.Logger.Error(text, "reason", reason)
	}
}

// agreed returns a channel that is closed once a term may begin, nil if it may
// now.
func (v *voter) agreed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.contested
}

// Disagreement returns why this server accepts no writes because of other
// servers' states, or why it does not apply the log; nil if all is well.
func (s *Server) Disagreement() error {
	if s.voter == nil {
		return nil
	}
	s.voter.mu.Lock()
	defer s.voter.mu.Unlock()
	if d := s.voter.disputed; d != nil {
		return fmt.Errorf("this server waits for the others' votes on an entry that it cannot apply: %w", d.err)
	}
	if s.voter.reason != nil {
		return fmt.Errorf("the servers' states differ and no majority agrees: %w", s.voter.reason)
	}
	return nil
}

// dispute waits until the votes on an entry are in that this server cannot
// apply. It returns nil if the entry is void.
func (v *voter) dispute(index uint64, reason error) error {
	d := &dispute{index, reason, make(chan error, 1)}
	v.mu.Lock()
	if slices.Contains(v.void, index) {
		v.mu.Unlock()
		return nil
	}
	v.disputed = d
	v.mu.Unlock()
	v.signal()
	select {
	case err := <-d.done:
		return err
	case <-*v.server.halt.Load():
	case <-v.over:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.disputed = nil
	return errHalted
}

// received gives up the vote on an entry that a snapshot from the leader
// includes, so that it can be restored.
func (v *voter) received(snapshot uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d := v.disputed; d != nil && snapshot >= d.index {
		v.disputed = nil
		d.done <- errHalted
	}
}

// against counts the ballots that cannot apply an entry, and those that did.
func against(index uint64, ballots []op.Ballot) (refuse, applied int, known bool) {
	for _, b := range ballots {
		switch {
		case slices.Contains(b.Void, index):
			refuse++
			known = true // an earlier vote decided it
		case b.Disputed == index:
			refuse++
		case b.Applied >= index:
			applied++
		}
	}
	return refuse, applied, known
}

// judgeDispute decides on the entry that this server cannot apply. If no server
// could apply it, no server is wrong by itself: the builds are, and skipping
// the entry would lose an acknowledged change. The caller holds v.mu.
func (v *voter) judgeDispute(voters []string, ballots []op.Ballot) {
	d := v.disputed
	if d == nil {
		return
	}
	need := majority(len(voters))
	refuse, applied, known := against(d.index, ballots)
	switch {
	case applied >= need:
		v.server.differs(fmt.Errorf("%w: %w; a majority applied it; this server stops taking part and is refilled from the leader at its next start", ErrDiffers, d.err))
		d.done <- ErrDiffers
	case refuse >= need && (applied > 0 || known):
		if err := v.keepVoid(d.index); err != nil {
			d.done <- fmt.Errorf("%w; a majority cannot apply it either, which cannot be recorded: %w", d.err, err)
			break
		}
		v.server.config.Logger.Error("a log entry is void: a majority of the servers cannot apply it, so the server that proposed it has a wrong state", "entry", d.index, "reason", d.err)
		d.done <- nil
	case refuse == len(voters):
		d.done <- fmt.Errorf("%w; no server can apply it: run the build that wrote it", d.err)
	default:
		v.say("this server cannot apply a log entry and waits for the votes of the others", d.err)
		return
	}
	v.disputed = nil
}

// accuse records that another server cannot apply an entry that this one
// applied. The caller holds v.mu.
func (v *voter) accuse(entry uint64) {
	if !slices.Contains(v.accused, entry) && len(v.accused) < keptVoid {
		v.accused = append(v.accused, entry)
		v.signal()
	}
}

// judgeAccused decides on the entries that this server applied and another one
// could not. A question without an answer stands: servers that have not come to
// the entry, or do not answer now, count when they do. The caller holds v.mu.
func (v *voter) judgeAccused(voters []string, ballots []op.Ballot) {
	need := majority(len(voters))
	v.accused = slices.DeleteFunc(v.accused, func(entry uint64) bool {
		refuse, applied, _ := against(entry, ballots)
		if refuse >= need {
			v.server.differs(fmt.Errorf("%w: it applied raft log entry %d, which a majority cannot apply; "+
				"this server stops taking part and is refilled from the leader at its next start", ErrDiffers, entry))
		}
		return refuse >= need || applied >= need
	})
}

// voidName is the file of the void entries. Without it a restarted server would
// wait for the others' votes again.
const voidName = "void.json"

// loadVoid reads the void entries.
func (v *voter) loadVoid() error {
	b, err := os.ReadFile(v.server.path(voidName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &v.void)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", v.server.path(voidName), err)
	}
	return nil
}

// keepVoid stores that an entry is void. The caller holds v.mu.
func (v *voter) keepVoid(index uint64) error {
	list := append(slices.Clone(v.void), index)
	list = list[max(0, len(list)-keptVoid):]
	b, err := json.Marshal(list)
	if err == nil {
		err = durable.Replace(v.server.path(voidName), append(b, '\n'))
	}
	if err == nil {
		v.void = list
	}
	return err
}
