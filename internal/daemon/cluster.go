package daemon

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"berth"
	"berth/internal/config"
	"berth/internal/gossip"
	"berth/internal/server"
	"berth/internal/state/codec"

	"golang.org/x/sync/errgroup"
)

// NewGossipKey draws a key for server.encrypt.
func NewGossipKey() string { return gossip.NewKey() }

// openGossip binds the gossip port. It returns nil with -dev: such a server has
// no peers.
func (d *Daemon) openGossip() (_ *server.Cluster, err error) {
	conf, s := d.conf, &d.conf.Server
	if conf.Dev {
		return nil, nil
	}
	c := gossip.Config{
		Name: conf.Name, Region: conf.Region, Datacenter: conf.Datacenter, ID: d.folder.ID, Cluster: d.folder.Cluster, RPC: d.advertisedRPC(), Expect: s.BootstrapExpect,
		Voter: !s.NonVoting, Build: conf.NomadVersion, Berth: conf.Version, LogVersion: codec.LogVersion, Bind: conf.Serf.Addr, Port: conf.Serf.Port, Advertise: conf.Serf.Advertise,
		Dir: filepath.Join(s.DataDir, "serf"), RejoinAfterLeave: s.RejoinAfterLeave, MaxConns: d.ports.Gossip, Logger: d.log,
	}
	if s.EncryptKey != nil {
		c.Keys = [][]byte{s.EncryptKey}
	}
	if d.pool, err = gossip.Listen(c); err != nil {
		return nil, err
	}
	return &server.Cluster{Members: d.pool, Expect: s.BootstrapExpect, NonVoter: s.NonVoting}, nil
}

// advertisedRPC is the address at which other servers reach this one.
func (d *Daemon) advertisedRPC() string { return cmp.Or(d.conf.RPC.Advertise, d.RPCAddr()) }

// runGossip adds to g what finds the other servers and stays in touch with them.
func (d *Daemon) runGossip(ctx context.Context, g *errgroup.Group) {
	if d.pool == nil {
		return
	}
	g.Go(func() error { return d.pool.Run(ctx) })
	join := d.conf.Server.Join
	if len(join.Start) > 0 {
		g.Go(func() error {
			if _, err := d.pool.Join(ctx, join.Start); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	if len(join.Retry) > 0 {
		g.Go(func() error {
			err := d.pool.Retry(ctx, gossip.Join{Addrs: join.Retry, Interval: join.Interval, Max: join.Max})
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
}

// leaveTime limits how long a server takes to leave.
const leaveTime = 15 * time.Second

// leave removes the server from its cluster if the configuration wants that for
// the signal that ended the agent. Otherwise it only hands over leadership.
func (d *Daemon) leave(ctx context.Context) {
	if d.pool == nil {
		return
	}
	// ctx may have ended, so leaving needs a context of its own, with a limit.
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if !leaves(d.conf.Config, cause) {
		d.server.HandOver(ctx)
		return
	}
	d.log.Info("the server leaves its cluster")
	if err := d.server.Leave(ctx); err != nil && !errors.Is(err, context.Canceled) {
		d.log.Warn("the server could not leave its cluster", "error", err)
	}
}

// drainNode drains the node before its agent ends, if the configuration says so for
// what ended ctx. The rest of the process runs meanwhile.
func (d *Daemon) drainNode(ctx context.Context) {
	c := d.conf.Client.DrainOnShutdown
	if d.agent == nil || !c.Enabled || !leaves(d.conf.Config, context.Cause(ctx)) {
		return
	}
	spec := berth.DrainSpec{Deadline: c.Deadline, IgnoreSystemJobs: c.IgnoreSystemJobs}
	if c.Force {
		spec.Deadline = -1
	}
	if err := d.agent.Drain(context.WithoutCancel(ctx), spec); err != nil {
		d.log.Warn("the agent ends though its node is not drained", "error", err)
	}
}

// Signal is the cause of a context that a signal ended.
type Signal struct{ os.Signal }

// Error returns the name of the signal, for the log.
func (s Signal) Error() string { return s.String() + " signal received" }

// Is reports that a signal is a kind of context.Canceled.
func (s Signal) Is(target error) bool { return target == context.Canceled }

// leaves reports whether a server leaves its cluster when its process ends by
// cause.
func leaves(conf *config.Config, cause error) bool {
	s, _ := errors.AsType[Signal](cause)
	switch s.Signal {
	case os.Interrupt:
		return conf.LeaveOnInterrupt
	case syscall.SIGTERM:
		return conf.LeaveOnTerminate
	}
	return false
}
