package cli

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/config"
	"berth/internal/gossip"
	"berth/internal/server"
	"berth/internal/state"

	"golang.org/x/sync/errgroup"
)

// openGossip opens the port at which the server of this agent will meet others.
// In development it is alone.
func (a *agentProcess) openGossip() (_ *server.Cluster, err error) {
	conf, s := a.conf, &a.conf.Server
	if conf.Dev {
		return nil, nil
	}
	c := gossip.Config{
		Name: conf.Name, Region: conf.Region, Datacenter: conf.Datacenter, ID: a.folder.ID, Cluster: a.folder.Cluster, RPC: a.advertisedRPC(), Expect: s.BootstrapExpect,
		Voter: !s.NonVoting, Build: NomadVersion, Berth: Version, LogDialect: state.Dialect, Bind: conf.Serf.Addr, Port: conf.Serf.Port, Advertise: conf.Serf.Advertise,
		Dir: filepath.Join(s.DataDir, "serf"), RejoinAfterLeave: s.RejoinAfterLeave, Logger: a.log,
	}
	if s.EncryptKey != nil {
		c.Keys = [][]byte{s.EncryptKey}
	}
	if a.pool, err = gossip.Listen(c); err != nil {
		return nil, err
	}
	return &server.Cluster{Members: a.pool, Expect: s.BootstrapExpect, Keys: a.pool.Secrets, NonVoter: s.NonVoting}, nil
}

// advertisedRPC is the address at which other servers reach this one.
func (a *agentProcess) advertisedRPC() string { return cmp.Or(a.conf.RPC.Advertise, a.rpcAddr()) }

// gossip has the server look for others and stay in touch with them.
func (a *agentProcess) gossip(ctx context.Context, g *errgroup.Group) {
	if a.pool == nil {
		return
	}
	g.Go(func() error { return a.pool.Run(ctx) })
	join := a.conf.Server.Join
	if len(join.Start) > 0 {
		g.Go(func() error {
			if _, err := a.pool.Join(ctx, join.Start); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		})
	}
	if len(join.Retry) > 0 {
		g.Go(func() error {
			err := a.pool.Retry(ctx, gossip.Join{Addrs: join.Retry, Interval: join.Interval, Max: join.Max})
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
}

// leaveTime bounds how long a server takes to leave.
const leaveTime = 15 * time.Second

// leave takes the server out of its cluster if the configuration says so for
// the signal that ended this agent. Otherwise it only lets another lead.
func (a *agentProcess) leave(ctx context.Context) {
	if a.pool == nil {
		return
	}
	why := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if !leaves(a.conf, why) {
		a.server.HandOver(ctx)
		return
	}
	a.log.Info("the server leaves its cluster")
	if err := a.server.Leave(ctx); err != nil && !errors.Is(err, context.Canceled) {
		a.log.Warn("the server could not leave its cluster", "error", err)
	}
}

// leaves says whether a server leaves its cluster when its process ends by
// cause, in which signal.NotifyContext names the signal.
func leaves(conf *config.Config, cause error) bool {
	if cause == nil {
		return false
	}
	if strings.HasPrefix(cause.Error(), os.Interrupt.String()) {
		return conf.LeaveOnInterrupt
	}
	return strings.HasPrefix(cause.Error(), "terminated") && conf.LeaveOnTerminate
}
