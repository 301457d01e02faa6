package api

import (
	"context"
	"errors"
	"net"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/internal/state"
	"berth/op"
)

// Others is what the API asks about the other servers. A server that is alone
// for ever has none.
type Others interface {
	// Sync returns once all that was answered anywhere in the cluster before
	// the call is in this server's store. Without a leader it waits a while for
	// one; then the error wraps state.ErrLost.
	Sync(ctx context.Context) error
	// Contact returns how long ago this server heard the leader, 0 on the
	// leader, and whether it knows of one.
	Contact() (last time.Duration, known bool)
	// Route says where a request that the leader must answer is answered: at an
	// address, or here, which is "". Without a leader it waits until ctx ends;
	// then the error wraps state.ErrLost. If the request was passed on to this
	// server as the leader, it is answered here or by ErrUnled.
	Route(ctx context.Context, passed bool) (addr string, err error)
	// While returns a context that ends when ctx does, or when another server
	// than the one at addr leads.
	While(ctx context.Context, addr string) (context.Context, context.CancelFunc)
	// Dial opens a connection on which the server at addr answers HTTP requests
	// that this one passes on; see Server.Passed. The connection outlives ctx.
	Dial(ctx context.Context, addr string) (net.Conn, error)
	// Call passes a call on to the server at addr, under a name for calls that
	// were passed on.
	Call(ctx context.Context, addr, method string, c RPC) (any, error)
	// Leading is the address of the leader, "" if none is known; Peers are the
	// addresses of the servers that agree on the state.
	Leading() string
	Peers() ([]string, error)
	// Servers are the live servers of the region, for agents to choose from.
	Servers() []op.ServerAddr
	// Regions are the names of all regions that are known, in order; InRegion
	// are the addresses of the live servers of one, in no order.
	Regions() []string
	InRegion(name string) []string
}

// hold is how long a request waits for a leader.
const hold = 5 * time.Second

// Hold is how long a request waits for a leader (rpc_hold_timeout).
const Hold = hold

// What a server answers, or the way to it, when nothing came of a request, so
// that it may be repeated elsewhere. Any other failure leaves open what became
// of it.
var (
	// ErrUnled says that a server was asked as the leader and is not.
	ErrUnled = berth.Errorf(berth.NoLeader, "%w: it was asked of a server that does not lead, and nothing was done", state.ErrLost)
	// ErrUnreached says that a server was not reached.
	ErrUnreached = errors.New("the server was not reached, and nothing was done")
	// ErrDropped says that a server was lost before it answered.
	ErrDropped = errors.New("the server was lost before it answered")
)

// harmless says whether an error is one of those, here or from another server.
func harmless(err error) bool {
	return errors.Is(err, ErrUnreached) || err != nil && err.Error() == ErrUnled.Error()
}

// A request that was passed on says how far it may go.
type passed string

const (
	passedNot    passed = ""
	passedRegion passed = "region" // to any server of the region that it is for
	passedLeader passed = "leader" // to the leader: no further
)

type passedKey struct{}

func passedOf(ctx context.Context) passed {
	p, _ := ctx.Value(passedKey{}).(passed)
	return p
}

// sync has this server know what was answered before, and says of an answer
// how old it can be.
func (s *Server) sync(ctx context.Context) error {
	if s.Others != nil {
		return s.Others.Sync(ctx)
	}
	_, err := s.Cluster.Leader()
	return err
}

// contact says how far this server may be behind, for a stale answer.
func (s *Server) contact(m *op.Meta) {
	if s.Others != nil {
		m.LastContact, m.KnownLeader = s.Others.Contact()
		return
	}
	_, err := s.Cluster.Leader()
	m.KnownLeader = err == nil
}

// away says whether a region is another one than this server's.
func (s *Server) away(region string) bool { return region != "" && region != s.Region }

// toLeader calls try with the address of the leader until something came of it,
// or may have. It returns here if this server is the one to answer. Without a
// leader it waits, but not long.
func (s *Server) toLeader(ctx context.Context, repeatable bool, try func(ctx context.Context, addr string) error) (here bool, err error) {
	how := passedOf(ctx)
	until := time.Now().Add(hold)
	for {
		wait, cancel := context.WithDeadline(ctx, until)
		addr, err := s.Others.Route(wait, how == passedLeader)
		cancel()
		if err != nil {
			return false, err
		}
		if addr == "" {
			return true, nil
		}
		life, end := s.Others.While(ctx, addr)
		err = try(life, addr)
		end()
		switch {
		case err == nil || ctx.Err() != nil:
			return false, err
		case harmless(err):
			if time.Now().After(until) {
				return false, err
			}
		case !repeatable:
			return false, err
		default:
			until = time.Now().Add(hold)
		}
		if err := rest.For(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// termOver is in the error of a write that found the term over before anything
// of it was proposed.
type termOver struct{ error }

// Unwrap returns why.
func (e *termOver) Unwrap() error { return e.error }

// insist calls try, which passes a write on or makes it here, again while the
// term in which it would be made here was over before anything was proposed:
// another server leads soon. Who passed the request on looks for that one.
func (s *Server) insist(ctx context.Context, try func() error) error {
	err := try()
	if _, over := errors.AsType[*termOver](err); !over || s.Others == nil {
		return err
	}
	if passedOf(ctx) == passedLeader {
		return ErrUnled
	}
	for until := time.Now().Add(hold); time.Now().Before(until); {
		if rest.For(ctx, 20*time.Millisecond) != nil {
			break
		}
		err = try()
		if _, over := errors.AsType[*termOver](err); !over {
			break
		}
	}
	return err
}

// toRegion calls try with the addresses of servers of another region, until
// something came of it, or may have.
func (s *Server) toRegion(ctx context.Context, region string, try func(ctx context.Context, addr string) error) error {
	if s.Others == nil || passedOf(ctx) != passedNot {
		return s.region(region)
	}
	err := s.region(region)
	for _, addr := range s.Others.InRegion(region) {
		if err = try(ctx, addr); !harmless(err) {
			return err
		}
	}
	return err
}

// lostOnTheWay is what a caller is told of a request that was passed on and
// not answered.
func lostOnTheWay(err error) error {
	if !errors.Is(err, ErrDropped) {
		return err
	}
	return berth.Errorf(berth.NoLeader, "%w: the leader was lost while it had the request, so it is not known what became of it: %v", state.ErrLost, err)
}

// passCall passes a call of an agent on to the leader, if this server is not
// the one to answer. in is an empty input of the operation.
func (s *Server) passCall(ctx context.Context, c RPC, method string, in any) (reply any, here bool, err error) {
	if s.Others == nil {
		return nil, true, nil
	}
	var answered bool
	here, err = s.toLeader(ctx, false, func(life context.Context, addr string) error {
		var err error
		reply, err = s.Others.Call(life, addr, string(passedLeader)+"/"+method, c)
		answered = err == nil
		return err
	})
	if answered {
		s.learn(c, in)
	}
	return reply, here, lostOnTheWay(err)
}

// learn remembers of which node's agent a connection is: the leader, which
// took the agent's call, has found its secret to be right.
func (s *Server) learn(c RPC, in any) {
	if s.Proved == nil {
		return
	}
	switch in := in.(type) {
	case *op.RegisterNode:
		if c.Decode(in) == nil && in.Node != nil {
			s.Proved(in.Node.ID, c)
		}
	case *op.BeatNode:
		if c.Decode(in) == nil {
			s.Proved(in.NodeID, c)
		}
	}
}

// passCallAway passes a call on to another region.
func (s *Server) passCallAway(ctx context.Context, region string, c RPC, method string) (reply any, err error) {
	err = s.toRegion(ctx, region, func(ctx context.Context, addr string) error {
		var err error
		reply, err = s.Others.Call(ctx, addr, string(passedRegion)+"/"+method, c)
		return err
	})
	return reply, err
}

// PassedRPC returns the handlers for calls that other servers pass on, by the
// names under which they do. Only servers may call them.
func (s *Server) PassedRPC() map[string]func(context.Context, RPC) (any, error) {
	out := make(map[string]func(context.Context, RPC) (any, error), 2*len(s.rpc))
	for name, h := range s.rpc {
		for _, how := range []passed{passedLeader, passedRegion} {
			out[string(how)+"/"+name] = func(ctx context.Context, c RPC) (any, error) {
				return h(context.WithValue(ctx, passedKey{}, how), c)
			}
		}
	}
	return out
}
