package api

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// Write is what a write handler decides from: a snapshot, the caller, the time
// and a source of random bytes. Handlers are functions of it and of their input.
// They propose nothing, wait for nothing and leave their input as it is, so that
// they can decide again on a newer snapshot.
type Write struct {
	*state.Snapshot
	Region  string   // of this server
	Options op.Write // its namespace is never ""
	Caller  Caller
	Now     time.Time // of the decision; commands take their time from it
	Rand    io.Reader // for IDs and seeds, see random

	limits    JobLimits // of jobs, by this server's configuration
	operation string    // its name
	named     string    // the namespace that the request names, "" if it names none
	authorize func(Caller, acl.Capability, string) error
	phases    phases   // what the leader knows of evaluations
	notes     []string // what users should know of how their job was completed
	// ctx ends when the caller leaves. Only decoding, which can take long, looks
	// at it; a decision does not depend on it.
	ctx context.Context
}

// Space returns the namespace that the request is about.
func (w *Write) Space() string { return w.Options.Namespace }

// job returns the key of the job that a request names.
func (w *Write) job(id string) berth.JobKey {
	return berth.JobKey{Namespace: w.Space(), ID: berth.JobID(id)}
}

// may returns an error unless the caller has a right in a namespace.
func (w *Write) may(need acl.Capability, namespace string) error {
	return w.authorize(w.Caller, need, namespace)
}

// read returns a read of the same snapshot for the same caller, to look things
// up as read handlers do.
func (w *Write) read() *Read {
	return &Read{
		Snapshot: w.Snapshot, Query: &op.Query{Namespace: w.Space()}, Caller: w.Caller, authorize: w.authorize, phases: w.phases,
	}
}

// random fills b with random bytes.
func (w *Write) random(b []byte) {
	if _, err := io.ReadFull(w.Rand, b); err != nil {
		panic(err) // crypto/rand does not fail, and neither do the sources of tests
	}
}

// seed returns the seed of an evaluation that a user raises.
func (w *Write) seed(trigger string, priority int) state.EvalSeed {
	s := state.EvalSeed{TriggeredBy: trigger, Priority: priority, Cause: w.cause()}
	w.random(s.ID[:])
	return s
}

// cause returns this request as the cause of what it changes.
func (w *Write) cause() berth.Cause {
	return berth.Cause{Kind: berth.CauseUser, Request: w.request()}
}

// request returns this request as rows keep it, or nil while some server is too
// old to know such a field.
func (w *Write) request() *berth.Request {
	if !w.KeepsLineage() {
		return nil
	}
	host, _, err := net.SplitHostPort(w.Caller.Remote)
	if err != nil {
		host = w.Caller.Remote
	}
	return &berth.Request{Op: w.operation, Remote: host}
}

// Change is what a write handler decided: the commands to propose, and how the
// answer follows from what becomes of them. Its functions are as pure as the
// handler itself.
type Change[Out any] struct {
	// Commands are proposed together. Without any, nothing changes.
	Commands []state.Command
	// Apart proposes the commands one by one, up to the first that is refused,
	// because together they are too large for one log entry.
	Apart bool
	// Older is proposed instead if some server is too old to know Commands.
	Older []state.Command
	// Agent is the node whose agent made the call and proved it, if one did. The
	// call counts as a heartbeat, and Outcome has a Contact.
	Agent berth.NodeID
	// Up is true if the agent reports that its node is up. If the node was given
	// up in the meantime, the handler decides again.
	Up bool
	// Index is the state index of an answer without commands, 0 for none.
	Index uint64
	// Answer makes the answer once the commands are committed; nil: a zero Out.
	Answer func(*Outcome) Out
	// Refused answers if a command is refused; nil: the refusal is the answer.
	Refused func(*Outcome, error) (Out, error)
	// Follow delays the answer until the consequences of the change are known.
	Follow *Follow[Out]
}

// Outcome is what became of a Change.
type Outcome struct {
	// Index is the state index of the last command, or that of the Change if it
	// has no commands; 0 after a refusal.
	Index uint64
	// After is a committed state with the commands in it.
	After *state.Snapshot
	// Contact is set for changes of a node's agent.
	Contact
}

// Meta returns the metadata of an answer.
func (o *Outcome) Meta() op.Meta { return op.Meta{Index: o.Index, KnownLeader: true} }

// Contact is what the agent of a node is told on each heartbeat.
type Contact struct {
	TTL     time.Duration   // time until the next heartbeat is due
	Leader  string          // RPC address of the leader
	Servers []op.ServerAddr // live ones of the region; nil on a server that runs alone
}

// Follow waits for the consequences of a change, and adds them to the answer.
type Follow[Out any] struct {
	For  time.Duration    // how long to wait at most; 0: look once
	Keys []state.WatchKey // what Look depends on
	// Look brings the answer up to date and reports whether the wait is over.
	// after is the first snapshot with the change, now the newest.
	Look func(after, now *state.Snapshot, out *Out) (done bool)
}

// propose returns the Change of one command.
func propose[Out any](c state.Command, answer func(*Outcome) Out) Change[Out] {
	return Change[Out]{Commands: []state.Command{c}, Answer: answer}
}

// unchanged returns the Change that has no commands, with its answer.
func unchanged[Out any](out Out) Change[Out] {
	return Change[Out]{Answer: func(*Outcome) Out { return out }}
}

// maxDecisions is how often a write is decided before its agent is told to ask
// again.
const maxDecisions = 3

// runWrite does a write on this server, if it leads; see local.
func runWrite[In, Out any](ctx context.Context, s *Server, info *op.Info, who Caller, opts *op.Write, in *In, decide func(*Write, *In) (Change[Out], error)) (out Out, index uint64, err error) {
	again := true
	for n := 0; again && n < maxDecisions; n++ {
		out, index, again, err = tryWrite(ctx, s, info, who, opts, in, decide)
	}
	return out, index, err
}

// tryWrite decides a write once and carries it out. again means that what it was
// decided on has changed, so that its answer would be wrong.
func tryWrite[In, Out any](ctx context.Context, s *Server, info *op.Info, who Caller, opts *op.Write, in *In, decide func(*Write, *In) (Change[Out], error)) (out Out, index uint64, again bool, err error) {
	// The handler decides from a committed state. Apply checks its conditions
	// again, in the state that the command meets.
	w, leader, err := s.admitWrite(ctx, info, who, opts)
	if err != nil {
		return out, 0, false, err
	}
	c, err := decide(w, in)
	if err != nil || len(c.Commands) == 0 {
		// Nothing will be committed that could show that this server still
		// leads. One that was paused would refuse, or find nothing to do, from a
		// state that others have left behind.
		if lost := confirm(ctx, leader); lost != nil {
			return out, 0, false, lost
		}
	}
	if err != nil {
		return out, 0, false, err
	}
	o := Outcome{Index: c.Index}
	if len(c.Commands) > 0 {
		if err := leader.Writable(); err != nil {
			return out, 0, false, err
		}
		leave, refused := s.admission.enter(info, who)
		if refused != nil {
			return out, 0, false, refused
		}
		o.Index, err = commit(ctx, leader, c.Commands, c.Apart)
		// Nothing was proposed: the log refused the command before it was
		// written.
		if c.Older != nil && errors.Is(err, state.ErrLogVersion) {
			o.Index, err = commit(ctx, leader, c.Older, false)
		}
		leave()
	}
	// What this answer tells is committed, so that the next request sees it, too.
	o.After = s.Store.Snapshot()
	switch {
	case err == nil:
		if !c.Agent.IsZero() {
			s.heard(c.Agent, who.Conn)
			if o.Contact, err = s.contactOf(ctx, leader, c.Agent); err != nil {
				return out, 0, false, err
			}
			if o.After = s.Store.Snapshot(); c.Up && givenUp(o.After.Node(c.Agent)) {
				return out, 0, true, errGivenUp
			}
		}
		if c.Answer != nil {
			out = c.Answer(&o)
		}
	// Only a refusal can be an answer. A lost term or a failure of our own
	// cannot.
	case c.Refused == nil || berth.KindOf(err) == "" || errors.Is(err, state.ErrLost):
		return out, 0, false, err
	default:
		if out, err = c.Refused(&o, err); err != nil {
			return out, 0, false, err
		}
	}
	if c.Follow != nil {
		err = follow(ctx, s, who, c.Follow, o.After, &out)
	}
	return out, o.Index, false, err
}

// admitWrite checks that this server may make a write, and for this caller. It
// returns what the handler decides from, and the log for its commands.
func (s *Server) admitWrite(ctx context.Context, info *op.Info, who Caller, opts *op.Write) (*Write, Leader, error) {
	if err := s.region(opts.Region); err != nil {
		return nil, nil, err
	}
	w := &Write{
		ctx:    ctx,
		Region: s.Region, Options: *opts, Caller: who, Now: time.Now(), Rand: s.Rand, named: opts.Namespace, authorize: s.Authorize,
		operation: info.Name, limits: s.Jobs,
	}
	if w.named == "" {
		w.Options.Namespace = berth.DefaultNamespace
	}
	if w.named == berth.AllNamespaces && info.Space == acl.QuerySpace {
		return nil, nil, berth.Errorf(berth.Invalid, "namespace: %q is for reads only: a write needs one namespace", w.named)
	}
	if err := s.allow(info, who, w.Space()); err != nil {
		return nil, nil, err
	}
	leader, err := s.Cluster.Leader()
	if err != nil {
		return nil, nil, &termOver{err}
	}
	if err := s.pace(info, who, w.Space(), w.Now); err != nil {
		return nil, nil, err
	}
	w.Snapshot, w.phases = s.Store.Snapshot(), leader
	return w, leader, nil
}

// commit proposes commands, together or one by one, and returns the state index
// of the last once they are committed. The error is a *termOver if nothing was
// proposed.
func commit(ctx context.Context, log state.Log, cmds []state.Command, apart bool) (index uint64, err error) {
	// Apart, a later refusal leaves the earlier commands in force.
	step := len(cmds)
	if apart {
		step = 1
	}
	for i := 0; i < len(cmds); i += step {
		results, err := log.Propose(ctx, cmds[i:i+step]...)
		switch {
		case err == nil:
			index = results[len(results)-1].Index
		case i == 0 && errors.Is(err, state.ErrLost) && !errors.Is(err, state.ErrUnknown):
			return 0, &termOver{err}
		default:
			return 0, err
		}
	}
	return index, nil
}

// confirm returns nil once a majority has confirmed that what this server
// decided on its state since the term began was decided as the leader. The
// error is a *termOver, since nothing was proposed, or the context's.
func confirm(ctx context.Context, leader Leader) error {
	err := leader.Confirm(ctx)
	if errors.Is(err, state.ErrLost) {
		return &termOver{err}
	}
	return err
}

// errGivenUp is returned to an agent whose node is given up again and again while
// it reports that it is up.
var errGivenUp = berth.Errorf(berth.Conflict, "the node was given up while its agent reported that it is up: report it again")

// givenUp reports whether a node is one that was not heard; nil is one that was
// deleted since.
func givenUp(n *berth.Node) bool {
	return n == nil || n.Status == berth.NodeDown || n.Status == berth.NodeDisconnected
}

// contactOf records a heartbeat of a node, and returns what its agent is told.
func (s *Server) contactOf(ctx context.Context, leader Leader, id berth.NodeID) (Contact, error) {
	ttl, err := leader.Beat(ctx, id)
	c := Contact{TTL: ttl, Leader: s.Cluster.Address()}
	if s.Peers != nil {
		c.Servers = s.Peers.Servers()
	}
	return c, err
}

// follow runs f until it is done or its time is over.
func follow[Out any](ctx context.Context, s *Server, who Caller, f *Follow[Out], after *state.Snapshot, out *Out) error {
	if f.Look(after, after, out) || f.For == 0 {
		return nil
	}
	if err := s.waiting.enter(who); err != nil {
		return err
	}
	defer s.waiting.exit(who)
	ctx, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	watch := s.Store.Watch(f.Keys...)
	defer watch.Stop()
	for !f.Look(after, s.Store.Snapshot(), out) {
		if idle(ctx, watch) != nil {
			break
		}
	}
	return nil
}

// effect registers an operation that the leader carries out without changing the
// state, such as restarting a task or removing a server. f is called at most once
// for a request.
func effect[In, Out any](s *Server, o op.Op[In, Out], f func(context.Context, *Write, *In) (Out, error)) {
	onLeader(s, o, func(ctx context.Context, who Caller, opts *op.Write, in *In) (out Out, _ uint64, err error) {
		w, leader, err := s.admitWrite(ctx, o.Info, who, opts)
		if err == nil {
			err = confirm(ctx, leader) // before anything is done by the state that f gets
		}
		if err != nil {
			return out, 0, err
		}
		out, err = f(ctx, w, in)
		return out, 0, err
	})
}
