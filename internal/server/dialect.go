package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth"
	"berth/internal/consensus"
	"berth/internal/gossip"
	"berth/internal/state"
	"berth/internal/state/codec"
)

// While servers are upgraded one after another, they are of several builds. The
// leader's log takes no command that one of them does not know: that server
// would have to end. Which dialect of the log each knows, gossip tells. A server
// counts as soon as the Raft configuration has it, whether it votes or not: the
// log is sent to it in any case.
//
// Nothing is kept here. The log asks before the first command of a dialect, and
// as long as that is refused; who can be asked then is what counts.

// knower is a server of the Raft configuration and what it knows.
type knower struct {
	consensus.Peer
	name, build string
	dialect     int
	seen        bool // gossip tells of it, or did
}

// knowers returns the servers of the Raft configuration. What failed or left
// counts as it was seen last.
func (s *Server) knowers() ([]knower, error) {
	peers, err := s.consensus.Peers()
	if err != nil {
		return nil, err
	}
	byID := map[string]gossip.Member{}
	for _, m := range s.config.Cluster.Members.Members() {
		if old, twice := byID[m.ID]; m.Region == s.config.Region && (!twice || surer(m, old)) {
			byID[m.ID] = m
		}
	}
	var out []knower
	for _, p := range peers {
		k := knower{Peer: p, dialect: 1}
		if m, ok := byID[p.ID]; ok {
			k.name, k.build, k.dialect, k.seen = m.Name, cmp.Or(m.Berth, m.Build), max(m.LogVersion, 1), true
		} else if p.ID == s.id {
			k.name, k.dialect, k.seen = s.name(), codec.LogVersion, true // gossip has not come so far
		}
		out = append(out, k)
	}
	return out, nil
}

// surer says whether the one of two members with one ID says more of what that
// server knows: it is there, or promises less.
func surer(m, than gossip.Member) bool {
	if a, b := m.Status == gossip.Alive, than.Status == gossip.Alive; a != b {
		return a
	}
	return m.LogVersion < than.LogVersion
}

// allow refuses what a server of the cluster does not know, and says which.
func (s *Server) allow(what string, dialect int) error {
	list, err := s.knowers()
	if err != nil {
		return berth.Errorf(berth.Unavailable, "it is not known who would have to know %s: %w", what, err)
	}
	var lacking []string
	for _, k := range list {
		if k.dialect < dialect {
			lacking = append(lacking, k.lacks(what, dialect))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return &berth.Error{Kind: berth.Unavailable, Err: notKnown(strings.Join(lacking, "; "))}
}

func (k *knower) lacks(feature string, dialect int) string {
	if !k.seen {
		return fmt.Sprintf("server %s at %s was not seen since this one started, so it is not known whether it knows %s (log dialect %d): start it, or remove it from the Raft configuration",
			k.ID, k.Address, feature, dialect)
	}
	return fmt.Sprintf("server %q runs build %s, which does not know %s (log dialect %d, %d is needed): upgrade it first",
		k.name, cmp.Or(k.build, "unknown"), feature, k.dialect, dialect)
}

// notKnown is why a command is refused.
type notKnown string

// Error implements error.
func (n notKnown) Error() string { return string(n) }

// Is lets errors.Is find state.ErrLogVersion.
func (n notKnown) Is(target error) bool { return target == state.ErrLogVersion }

// mixed says whether a server of the cluster knows another dialect than this
// one. One that was never seen has no state that could be compared.
func (s *Server) mixed() bool {
	list, err := s.knowers()
	return err != nil || slices.ContainsFunc(list, func(k knower) bool { return k.seen && k.dialect != codec.LogVersion })
}

// lags says whether a server that wants to join does not know what the log
// holds: it would end as soon as it is sent that. It is told once.
func (s *Server) lags(m gossip.Member) bool {
	need := s.store.Snapshot().LogVersion
	if max(m.LogVersion, 1) >= need {
		delete(s.lagging, m.ID)
		return false
	}
	if !s.lagging[m.ID] {
		if s.lagging == nil {
			s.lagging = map[string]bool{}
		}
		s.lagging[m.ID] = true
		s.config.Logger.Error("a server is not taken in: its build does not know all that the log holds", "name", m.Name, "build", cmp.Or(m.Berth, m.Build), "dialect", max(m.LogVersion, 1), "needed", need)
	}
	return true
}
