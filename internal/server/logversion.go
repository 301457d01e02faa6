package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth"
	"berth/internal/consensus"
	"berth/internal/gossip"
	"berth/internal/state"
	"berth/internal/state/codec"
)

// During a rolling upgrade the servers run different builds. The leader's log
// takes no command that one of them does not understand: that server would have
// to stop. Gossip carries the log version of each server. A server counts as soon
// as it is in the Raft configuration, voting or not, because it receives the log.
//
// Nothing is cached here. The log asks before the first command of a log version,
// and again as long as the answer is a refusal.

// serverVersion is a server of the Raft configuration with its log version.
type serverVersion struct {
	consensus.Peer
	name, build string // for messages; "" if not seen
	logVersion  int    // the newest that it understands, at least 1
	seen        bool   // gossip knows it, or did
}

// serverVersions returns the servers of the Raft configuration. Failed and left
// servers count with the log version they had last.
func (s *Server) serverVersions() ([]serverVersion, error) {
	peers, err := s.consensus.Peers()
	if err != nil {
		return nil, err
	}
	byID := map[string]gossip.Member{}
	for _, m := range s.config.Cluster.Members.Members() {
		if old, twice := byID[m.ID]; m.Region == s.config.Region && (!twice || betterSource(m, old)) {
			byID[m.ID] = m
		}
	}
	var out []serverVersion
	for _, p := range peers {
		// A server that gossip does not know counts as the oldest.
		k := serverVersion{Peer: p, logVersion: 1}
		if m, ok := byID[p.ID]; ok {
			k.name, k.build, k.logVersion, k.seen = m.Name, cmp.Or(m.Berth, m.Build), max(m.LogVersion, 1), true
		} else if p.ID == s.id {
			k.name, k.logVersion, k.seen = s.name(), codec.LogVersion, true // gossip does not list this server yet
		}
		out = append(out, k)
	}
	return out, nil
}

// betterSource reports whether to trust m over another member with the same ID:
// prefer the one that is alive, then the lower log version.
func betterSource(m, than gossip.Member) bool {
	if a, b := m.Status == gossip.Alive, than.Status == gossip.Alive; a != b {
		return a
	}
	return m.LogVersion < than.LogVersion
}

// allow returns an error that names the servers which do not understand a log
// version. what describes the feature.
func (s *Server) allow(what string, version int) error {
	list, err := s.serverVersions()
	if err != nil {
		return berth.Errorf(berth.Unavailable, "cannot check that all servers support %s: %w", what, err)
	}
	var lacking []string
	for _, k := range s.joining.all() {
		if !slices.ContainsFunc(list, func(o serverVersion) bool { return o.ID == k.ID }) {
			list = append(list, k)
		}
	}
	for _, k := range list {
		if k.logVersion < version {
			lacking = append(lacking, k.tooOld(what, version))
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	return &berth.Error{Kind: berth.Unavailable, Err: versionError(strings.Join(lacking, "; "))}
}

// tooOld returns why a server stands in the way of a feature, and what to do
// about it.
func (k *serverVersion) tooOld(feature string, version int) string {
	if !k.seen {
		return fmt.Sprintf("server %s at %s has not been seen since this server started, so it may not support %s (log version %d): start it, or remove it from the Raft configuration",
			k.ID, k.Address, feature, version)
	}
	return fmt.Sprintf("server %q runs build %s, which does not support %s (log version %d, needs %d): upgrade it first",
		k.name, cmp.Or(k.build, "unknown"), feature, k.logVersion, version)
}

// versionError says why a command is refused.
type versionError string

// Error implements error.
func (n versionError) Error() string { return string(n) }

// Is lets errors.Is find state.ErrLogVersion.
func (n versionError) Is(target error) bool { return target == state.ErrLogVersion }

// mixedVersions reports whether a server of the cluster has another log version
// than this one. Servers never seen do not count: they have no state to compare.
func (s *Server) mixedVersions() bool {
	list, err := s.serverVersions()
	return err != nil || slices.ContainsFunc(list, func(k serverVersion) bool { return k.seen && k.logVersion != codec.LogVersion })
}

// joining holds the servers that are being added to the Raft configuration, from
// before the log is asked for its log version until they are in the
// configuration. Between the two a command of a newer log version could be
// proposed that such a server does not understand.
type joining struct {
	mu      sync.Mutex
	servers map[string]serverVersion // by ID
}

// add makes a server count for the log version.
func (j *joining) add(m gossip.Member) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.servers == nil {
		j.servers = map[string]serverVersion{}
	}
	j.servers[m.ID] = serverVersion{
		Peer: consensus.Peer{ID: m.ID, Address: m.RPC}, name: m.Name, build: cmp.Or(m.Berth, m.Build), logVersion: max(m.LogVersion, 1), seen: true,
	}
}

// keep forgets the servers that the function does not want.
func (j *joining) keep(wanted func(id string) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.servers {
		if !wanted(id) {
			delete(j.servers, id)
		}
	}
}

// all returns the servers that are being added, by ID.
func (j *joining) all() []serverVersion {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.servers), func(a, b serverVersion) int { return cmp.Compare(a.ID, b.ID) })
}

// tooOldToJoin reports whether a server that wants to join is too old for the
// log: it would stop at the first command that it does not understand, whether
// that is committed already or on its way. Logged once. A server that may join
// counts for the log version from now on.
func (s *Server) tooOldToJoin(log interface{ Tip() *state.Snapshot }, m gossip.Member) bool {
	// In this order: a command of a newer log version is either in the tip, or
	// is refused because of this server.
	s.joining.add(m)
	need := log.Tip().LogVersion
	if max(m.LogVersion, 1) >= need {
		delete(s.tooOld, m.ID)
		return false
	}
	s.joining.keep(func(id string) bool { return id != m.ID })
	if !s.tooOld[m.ID] {
		if s.tooOld == nil {
			s.tooOld = map[string]bool{}
		}
		s.tooOld[m.ID] = true
		s.config.Logger.Error("a server cannot join: its build is too old for this log", "name", m.Name, "build", cmp.Or(m.Berth, m.Build), "log_version", max(m.LogVersion, 1), "needed", need)
	}
	return true
}
