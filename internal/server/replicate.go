package server

import (
	"context"
	"math/rand/v2"
	"time"

	"berth"
	"berth/internal/leader/replicate"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/op"
)

// Authority is the region that decides about what all regions have in common.
type Authority struct {
	Region string // "": each region decides for itself
	Token  string // a management token there, with which this region copies
}

// elsewhere reports whether another region than this server's is authoritative.
func (c *Config) elsewhere() bool {
	return c.Authority.Region != "" && c.Authority.Region != c.Region && c.Cluster != nil
}

// authority is a replicate.Source.
type authority struct{ server *Server }

// List implements replicate.Source.
func (a authority) List(ctx context.Context, in *op.ReplicaQuery) (*op.ReplicaPage, error) {
	in.Region, in.AuthToken = a.server.config.Authority.Region, a.server.config.Authority.Token
	return askAuthority[op.ReplicaPage](ctx, a.server, op.ListReplica.Name, in)
}

// Read implements replicate.Source.
func (a authority) Read(ctx context.Context, in *op.ReplicaRef) (*op.ReplicaCopies, error) {
	in.Region, in.AuthToken = a.server.config.Authority.Region, a.server.config.Authority.Token
	return askAuthority[op.ReplicaCopies](ctx, a.server, op.ReadReplica.Name, in)
}

// askAuthority forwards an operation to a server of the authoritative region: to
// the next one if one was not reached. Every error has a kind.
func askAuthority[Out any](ctx context.Context, s *Server, name string, in any) (*Out, error) {
	region := s.config.Authority.Region
	arg, err := msgpack.Append(nil, in)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", name, err)
	}
	err = berth.Errorf(berth.Unavailable, "no live server of region %q is known", region)
	addrs := s.InRegion(region)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for _, addr := range addrs {
		var conn peer.Conn
		if conn, err = s.Connect(ctx, addr); err != nil {
			continue
		}
		var got *op.Answer
		got, err = conn.Forward(ctx, &op.Forwarded{Name: name, In: arg, Scope: op.ScopeRegion, Remote: s.config.Advertise, RPC: true})
		if err == nil {
			out := new(Out)
			if err = msgpack.Decode(got.Body, out); err == nil {
				return out, nil
			}
			break
		}
		if berth.KindOf(err) != "" && berth.KindOf(err) != berth.Unavailable && berth.KindOf(err) != berth.NoLeader {
			break // the answer of any other would be the same
		}
	}
	if berth.KindOf(err) == "" {
		err = berth.Errorf(berth.Unavailable, "region %q: %w", region, err)
	}
	return nil, err
}

// newReplication returns the service that copies from the authoritative region.
func (s *Server) newReplication(t *term) *replicate.Loop {
	return replicate.New(replicate.Config{
		Source: authority{s}, Store: s.store, Log: t.Log, Logger: s.config.Logger.With("authoritative_region", s.config.Authority.Region),
		Region: s.config.Region, Access: s.config.ACL, Seal: s.api.SealSecret,
	})
}

var (
	replicaIndex  = gauge("replication.index", "Index of the authoritative region's state that this region compared itself with last.")
	replicaAge    = gauge("replication.silent_seconds", "Seconds since the authoritative region last answered; it is asked again after 30 s at most. -1: not since this server leads.")
	replicaBehind = gauge("replication.behind", "Rows of the authoritative region that this region could not take over.")
	replicaFailed = gauge("replication.failures", "How often the authoritative region could not be copied from since this server leads.")
)

// replication puts how far this region is behind the authoritative one.
func (m *metrics) replication(l *replicate.Loop, put func(figure, float64, ...string)) {
	if l == nil {
		return
	}
	x, silent := l.Stats(), -1.0
	if !x.Contact.IsZero() {
		silent = time.Since(x.Contact).Seconds()
	}
	put(replicaIndex, float64(x.Index))
	put(replicaAge, silent)
	put(replicaBehind, float64(x.Behind))
	put(replicaFailed, float64(x.Failed))
}
