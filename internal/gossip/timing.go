package gossip

import (
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Timing sets how fast members find out about each other.
type Timing struct {
	Probe        time.Duration // interval at which one member is probed
	ProbeTimeout time.Duration // how long an answer to a probe may take
	Suspicion    int           // number of probe intervals, times log10 of the number of members, that a suspected member has to refute
	Gossip       time.Duration // how often messages are passed on
	PushPull     time.Duration // how often two members exchange their whole state
	Dial         time.Duration // timeout for a connection and the exchange on it
	Broadcast    time.Duration // timeout for sending a message
	Leave        time.Duration // how long a leaving member still answers
	Reconnect    time.Duration // how often failed members are contacted again
	Reclaim      time.Duration // how long a member must be dead before another address may take its name
}

// LAN is for servers near each other: a failure is detected after about 5 s.
var LAN = Timing{
	Probe: time.Second, ProbeTimeout: 500 * time.Millisecond, Suspicion: 4, Gossip: 200 * time.Millisecond, PushPull: 30 * time.Second,
	Dial: 10 * time.Second, Broadcast: 5 * time.Second, Leave: time.Second, Reconnect: 5 * time.Second, Reclaim: 10 * time.Second,
}

// Fast is for tests on one machine: a failure is detected after about 3 s. A
// member that waits for a busy processor has the time to refute it.
var Fast = Timing{
	Probe: 100 * time.Millisecond, ProbeTimeout: 75 * time.Millisecond, Suspicion: 30, Gossip: 10 * time.Millisecond, PushPull: 500 * time.Millisecond,
	Dial: 10 * time.Second, Broadcast: 5 * time.Second, Leave: 50 * time.Millisecond, Reconnect: 200 * time.Millisecond, Reclaim: 200 * time.Millisecond,
}

// memberlist copies the timing of the failure detector to m.
func (t *Timing) memberlist(m *memberlist.Config) {
	m.ProbeInterval, m.ProbeTimeout, m.SuspicionMult = t.Probe, t.ProbeTimeout, t.Suspicion
	m.GossipInterval, m.PushPullInterval, m.TCPTimeout, m.DeadNodeReclaimTime = t.Gossip, t.PushPull, t.Dial, t.Reclaim
}

// serf copies the timing of membership to s.
func (t *Timing) serf(s *serf.Config) {
	s.BroadcastTimeout, s.LeavePropagateDelay, s.ReconnectInterval = t.Broadcast, t.Leave, t.Reconnect
	// A query (about keys) ends when all members have answered. The busiest of
	// them has 10 s for it, and 20 s if there are ten members or more.
	s.QueryTimeoutMult = int(10 * time.Second / t.Gossip)
}
