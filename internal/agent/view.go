package agent

import (
	"errors"
	"fmt"
	"time"

	"berth"
	"berth/internal/agent/alloc"
	"berth/op"
)

// Has reports whether the agent holds an allocation.
func (a *Agent) Has(id string) bool {
	_, _, err := a.find(id)
	return err == nil
}

// find returns an allocation and its runner, which is nil if it had ended
// before it came here.
func (a *Agent) find(id string) (*op.Alloc, *alloc.Runner, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.allocs[id]
	if h == nil {
		return nil, nil, berth.Errorf(berth.NotFound, "allocation %q is not on this node", id)
	}
	return h.alloc, h.runner, nil
}

// Held is an allocation of the agent, for those who watch it.
type Held struct {
	ID          string
	ModifyIndex uint64 // of the version that the agent acts by
	Status      berth.ClientStatus
	Description string // why Status is what it is
}

// View is how an agent stands.
type View struct {
	Node          berth.NodeID
	Index         uint64        // highest of the answers acted on; never falls
	Heartbeat     time.Duration // the TTL last handed out
	LastHeartbeat time.Time     // of the last heartbeat that was answered
	Unreported    int           // allocations whose news servers have not taken
	Allocs        []Held        // in order of ID
}

// Alive returns nil if a server has answered within the heartbeat TTL, else why
// not, in a sentence.
func (a *Agent) Alive() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.lastHeartbeat.IsZero():
		return errors.New("no server has answered yet")
	case time.Since(a.lastHeartbeat) > a.ttl:
		return fmt.Errorf("no server has answered for %v, and the heartbeat TTL is %v", time.Since(a.lastHeartbeat).Round(time.Second), a.ttl)
	}
	return nil
}
