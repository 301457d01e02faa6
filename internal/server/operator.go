package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/consensus"
	"berth/internal/state"
	"berth/op"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"
)

// This file implements api.Operator.

// raftProtocol is the Raft protocol version of all servers.
const raftProtocol = "3"

// RaftServers implements api.Operator.
func (s *Server) RaftServers() ([]op.RaftServer, error) {
	peers, err := s.consensus.Peers()
	if err != nil {
		return nil, err
	}
	// Raft knows IDs and addresses. The names come from gossip.
	names := map[string]string{}
	if s.config.Cluster != nil {
		for _, m := range s.config.Cluster.Members.Members() {
			if m.Region == s.config.Region && m.ID != "" {
				names[m.ID] = m.Name
			}
		}
	} else {
		names[s.id] = s.name()
	}
	out := make([]op.RaftServer, len(peers))
	for i, p := range peers {
		out[i] = op.RaftServer{
			ID: p.ID, Node: cmp.Or(names[p.ID], op.UnknownNode), Address: p.Address, Leader: p.Leader, Voter: p.Voter, RaftProtocol: raftProtocol,
		}
		if s.config.Cluster == nil { // a single server has no Raft address
			out[i].Address = s.config.Advertise
		}
	}
	return out, nil
}

// name returns this server's name with its region: s1.global.
func (s *Server) name() string {
	if s.config.Self == nil {
		return ""
	}
	name := s.config.Self().Member.Name
	if suffix := "." + s.config.Region; name != "" && !strings.HasSuffix(name, suffix) {
		name += suffix
	}
	return name
}

// RemoveRaftServer implements api.Operator.
func (s *Server) RemoveRaftServer(ctx context.Context, id string) error {
	peers, err := s.consensus.Peers()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(peers, func(p consensus.Peer) bool { return p.Voter && p.ID != id }) {
		return berth.Errorf(berth.Invalid, "server %q is the only voter and cannot be removed", id)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := s.consensus.Remove(ctx, id); err != nil {
		return err
	}
	s.config.Logger.Warn("an operator removed a server from the Raft configuration", "id", id)
	return nil
}

// TransferLeadership implements api.Operator.
func (s *Server) TransferLeadership(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := s.consensus.Transfer(ctx, id); err != nil {
		return err
	}
	s.config.Logger.Info("an operator transferred leadership", "id", id)
	return nil
}

// ServersHealth implements api.Operator.
func (s *Server) ServersHealth() (out op.AutopilotHealth, err error) {
	if s.config.Cluster == nil {
		return s.ownHealth(), nil
	}
	now := s.AutopilotHealth()
	if now == nil {
		return out, state.ErrLost
	}
	// Autopilot has an empty view until its first round is over.
	if len(now.Servers) == 0 {
		return out, berth.Errorf(berth.Unavailable, "this server has just become the leader and does not know the servers' health yet: try again in a moment")
	}
	out = op.AutopilotHealth{Healthy: now.Healthy, FailureTolerance: now.FailureTolerance, Leader: string(now.Leader), Voters: []string{}}
	for _, id := range now.Voters {
		out.Voters = append(out.Voters, string(id))
	}
	slices.Sort(out.Voters)
	for id, x := range now.Servers {
		out.Servers = append(out.Servers, serverHealth(id, x))
	}
	slices.SortFunc(out.Servers, func(a, b op.ServerHealth) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// serverHealth returns a server's health as the API shows it.
func serverHealth(id raft.ServerID, x *autopilot.ServerState) op.ServerHealth {
	return op.ServerHealth{
		ID: string(id), Name: cmp.Or(x.Server.Name, op.UnknownNode), Address: string(x.Server.Address), SerfStatus: string(x.Server.NodeStatus),
		Version: x.Server.Version, Berth: x.Server.Meta["berth"], Leader: x.State == autopilot.RaftLeader, LastContact: op.Duration(x.Stats.LastContact),
		LastTerm: x.Stats.LastTerm, LastIndex: x.Stats.LastIndex, Healthy: x.Health.Healthy, Voter: x.HasVotingRights(), StableSince: x.Health.StableSince.UTC(),
	}
}

// ownHealth returns the health of a single server without a cluster.
func (s *Server) ownHealth() op.AutopilotHealth {
	leads, stats := s.Leads(), s.logPosition()
	self := op.ServerHealth{
		ID: s.id, Name: cmp.Or(s.name(), op.UnknownNode), Address: s.config.Advertise, SerfStatus: string(autopilot.NodeAlive), Leader: leads,
		LastContact: op.Duration(stats.LastContact), LastTerm: stats.LastTerm, LastIndex: stats.LastIndex, Healthy: leads, Voter: true, StableSince: s.started.UTC(),
	}
	if s.config.Self != nil {
		tags := s.config.Self().Member.Tags
		self.Version, self.Berth = tags["build"], tags["berth"]
	}
	out := op.AutopilotHealth{Healthy: leads, Servers: []op.ServerHealth{self}, Voters: []string{s.id}}
	if leads {
		out.Leader = s.id
	}
	return out
}

// SaveSnapshot implements api.Operator. The snapshot goes to an unlinked
// temporary file: its checksum is known before it is sent, a slow caller uses
// no memory, and nothing is left behind when the process ends.
func (s *Server) SaveSnapshot() (*api.Snapshot, error) {
	f, err := os.CreateTemp(s.config.DataDir, "operator-snapshot-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("save a snapshot: %w", err)
	}
	saved, err := s.saveTo(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("save a snapshot: %w", err)
	}
	return saved, nil
}

// saveTo writes this server's state to f, which it unlinks at once, and returns
// it ready to be read from the beginning. The caller closes f after an error.
func (s *Server) saveTo(f *os.File) (*api.Snapshot, error) {
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	sum := sha256.New()
	// The checksum is taken on the way to the file.
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 256<<10)
	b, err := s.consensus.SaveTo(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	return &api.Snapshot{ReadCloser: f, Size: size, Digest: "sha-256=" + base64.StdEncoding.EncodeToString(sum.Sum(nil)), Index: b.Index}, nil
}

// restoreTimeout is how long a restore waits for the next term to begin. The
// state is replaced already; the wait keeps the caller's next request from
// failing.
const restoreTimeout = 10 * time.Second

// RestoreSnapshot implements api.Operator.
func (s *Server) RestoreSnapshot(ctx context.Context, from io.Reader) (saved, now uint64, err error) {
	b, err := s.consensus.RestoreFrom(ctx, from)
	if err != nil {
		return 0, 0, err
	}
	now = s.store.Snapshot().Index
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	for changed := s.leading.changed(); !s.Leads() && s.consensus.Leader(); changed = s.leading.changed() {
		select {
		case <-changed:
		case <-ctx.Done():
			return b.Index, now, nil
		}
	}
	return b.Index, now, nil
}
