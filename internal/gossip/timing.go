package gossip

import (
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Timing is how fast members find out about each other.
type Timing struct {
	Probe        time.Duration // how often one member is asked whether it is there
	ProbeTimeout time.Duration // how long its answer may take
	Suspicion    int           // of how many probes it has the time, times log10 of the members, to contradict that it is not
	Gossip       time.Duration // how often news is passed on
	PushPull     time.Duration // how often two members compare all that they know
	Dial         time.Duration // how long a connection and what is said on it may take
	Broadcast    time.Duration // how long news may take to be sent
	Leave        time.Duration // how long a member that leaves still answers
	Reconnect    time.Duration // how often members that failed are tried again
	Reclaim      time.Duration // after how long without an answer another address may have a member's name
}

// LAN is for servers near each other: one that stops is known to have failed
// after some 5 s.
var LAN = Timing{
	Probe: time.Second, ProbeTimeout: 500 * time.Millisecond, Suspicion: 4, Gossip: 200 * time.Millisecond, PushPull: 30 * time.Second,
	Dial: 10 * time.Second, Broadcast: 5 * time.Second, Leave: time.Second, Reconnect: 5 * time.Second, Reclaim: 10 * time.Second,
}

// Fast is for tests on one machine: a server that stops is known to have
// failed within a second.
var Fast = Timing{
	Probe: 100 * time.Millisecond, ProbeTimeout: 75 * time.Millisecond, Suspicion: 3, Gossip: 10 * time.Millisecond, PushPull: 500 * time.Millisecond,
	Dial: time.Second, Broadcast: time.Second, Leave: 50 * time.Millisecond, Reconnect: 200 * time.Millisecond, Reclaim: 200 * time.Millisecond,
}

func (t *Timing) memberlist(m *memberlist.Config) {
	m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult = t.Probe, t.ProbeTimeout, t.Suspicion
	m.GossipInterval, m.PushPullInterval, m.TCPTimeout, m.DeadNodeReclaimTime = t.Gossip, t.PushPull, t.Dial, t.Reclaim
}

func (t *Timing) serf(s *serf.Config) {
	s.BroadcastTimeout, s.LeavePropagateDelay, s.ReconnectInterval = t.Broadcast, t.Leave, t.Reconnect
	// Questions (those about keys) may take as long as news needs to go round
	// ten times, but not less than a second: the busiest server answers too.
	s.QueryTimeoutMult = max(16, int(time.Second/t.Gossip))
}
