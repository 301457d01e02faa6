// Package daemon puts an agent process together from its configuration: a
// server, a node, or both, with the HTTP API in front of them. New opens what
// can fail and Run runs it until its context ends. Besides the server package,
// this is the only place that knows all parts; what they do is their own
// business.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/accept"
	"berth/internal/agent"
	"berth/internal/agent/supervise"
	"berth/internal/api"
	"berth/internal/claim"
	"berth/internal/config"
	"berth/internal/failpoint"
	"berth/internal/gossip"
	"berth/internal/limit"
	"berth/internal/server"
	"berth/internal/traces"
	"berth/internal/ui"
	"berth/internal/wire/certs"

	"golang.org/x/sync/errgroup"
)

// Config is what New needs.
type Config struct {
	*config.Config
	Log *slog.Logger
	// Output is the log that Log writes to; nil: it cannot be followed, and its
	// level stays.
	Output *Log
	// Reload reads the configuration again; nil: it cannot be.
	Reload func() (*config.Config, error)

	// Version is Berth's own version. NomadVersion is the Nomad release whose
	// interfaces it serves: what ${attr.nomad.version} evaluates to.
	Version, NomadVersion string
}

// Daemon is one agent process.
type Daemon struct {
	conf    Config
	log     *slog.Logger
	tls     *certs.Material // nil without TLS
	http    net.Listener
	rpc     net.Listener   // nil without a server
	pool    *gossip.Pool   // nil without a server, and with -dev
	folder  *server.Folder // nil without a server
	folders *agent.Folders // nil without a node
	server  *server.Server // nil without a server
	cluster *agent.Cluster // nil without a node
	agent   *agent.Agent   // nil without a node
	api     *api.Server
	handler http.Handler // api, with profiles
	metrics api.MetricsSource
	traces  *traces.Exporter // nil: none are sent
	audit   *api.Audit       // nil without an audit log
	ports   accept.Ports     // how many connections each port may have
	started time.Time

	live      atomic.Pointer[live]
	reloading sync.Mutex // held by Reload
}

// New opens everything that can fail: directories, listeners, the Raft log. The
// caller must call Run, which closes them.
func New(conf Config) (*Daemon, error) {
	if err := failpoint.Check(); err != nil {
		return nil, err
	}
	limit.LogTo(conf.Log)
	limitMemoryOnce(conf.Log)
	d := &Daemon{conf: conf, log: conf.Log, ports: accept.Divide(accept.Descriptors()), started: time.Now()}
	d.live.Store(liveOf(conf.Config))
	if err := d.open(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// open takes what only this machine sees before what others see. So an agent
// that is started twice by mistake, or has a damaged directory, never shows up
// in the cluster.
func (d *Daemon) open() (err error) {
	conf := d.conf
	if err := d.loadTLS(); err != nil {
		return err
	}
	if conf.Server.Enabled {
		if d.folder, err = server.Hold(conf.Server.DataDir, claim.ForRestart(d.log)); err != nil {
			return err
		}
	}
	if conf.Client.Enabled {
		if d.folders, err = agent.Hold(conf.Client.StateDir, conf.Client.AllocDir, claim.ForRestart(d.log)); err != nil {
			return err
		}
	}
	if err := d.openAudit(); err != nil {
		return err
	}
	if d.http, err = listen("ports.http", conf.HTTP); err != nil {
		return err
	}
	if conf.Server.Enabled {
		if d.rpc, err = listen("ports.rpc", conf.RPC); err != nil {
			return err
		}
	}
	if conf.Client.Enabled {
		if err := d.newNode(); err != nil {
			return err
		}
	}
	if conf.Server.Enabled {
		if err := d.newServer(); err != nil {
			return err
		}
		d.api, d.metrics = d.server.Handler(), d.server.Metrics()
		d.handler = d.withProfiles(d.api)
		return nil
	}
	d.metrics = server.ProcessMetrics(d.agent, metricsFilter(&conf.Telemetry))
	// Without a server, the API forwards to the servers of the node.
	d.api = api.NewAgent(api.AgentConfig{
		Region: conf.Region, Logger: d.log, Self: d.self, Health: d.health, Metrics: d.metrics,
		Has: d.agent.Has, Node: d.agent.NodeID, Agents: d.agent.AsAgents(), Connect: d.cluster.Connect, Servers: d.cluster, ACL: conf.ACL.Enabled, Audit: d.audit,
		Diagnostics: diagnostics{d},
	})
	d.handler = d.withProfiles(d.api)
	return nil
}

// listen listens on an address. Its error names the configuration key. An IPv4
// wildcard address must not listen on IPv6 too, hence tcp4.
func listen(key string, e config.Endpoint) (net.Listener, error) {
	network := "tcp"
	if net.ParseIP(e.Addr).To4() != nil {
		network = "tcp4"
	}
	ln, err := net.Listen(network, e.Listen())
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "%s: %w", key, err)
	}
	return ln, nil
}

// close releases what others see. The rest ends with the process.
func (d *Daemon) close() {
	for _, ln := range []net.Listener{d.http, d.rpc} {
		if ln != nil {
			ln.Close()
		}
	}
	if d.pool != nil {
		d.pool.Close()
	}
	d.closeAudit()
}

// Run runs the agent until ctx ends or a part of it fails. A SIGHUP reloads the
// configuration meanwhile. If ctx ends with a Signal as its cause, the server
// leaves its cluster where the configuration wants that for this signal.
//
// The node ends before the server, so that its last reports still arrive.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.onHangup()()
	// The node has a context of its own, so that it can end first. The rest
	// outlives ctx until the node has ended.
	node, endNode := context.WithCancel(context.WithoutCancel(ctx))
	defer endNode()
	defer context.AfterFunc(ctx, func() { d.drainNode(ctx); endNode() })()
	rest, endRest := context.WithCancel(context.WithoutCancel(ctx))
	defer endRest()
	g, rest := errgroup.WithContext(rest)
	g.Go(func() error {
		limits := api.Limits{MaxConns: d.conf.Limits.HTTPMaxConns, MaxTotal: d.ports.HTTP, HeaderTime: d.conf.Limits.HTTPHandshake, TLS: d.httpTLS(), Origins: d.origins(), Headers: d.headers}
		return api.Serve(rest, d.http, ui.Handler(d.handler, d.webUI()), limits, d.log)
	})
	g.Go(func() error { giveBack(rest); return nil })
	d.runSinks(rest, g)
	if d.server != nil {
		g.Go(func() error { return d.server.Run(rest) })
		d.runGossip(rest, g)
	}
	g.Go(func() error {
		// If another part fails, the node must end as well.
		stop := context.AfterFunc(rest, endNode)
		defer stop()
		err := d.runNode(node)
		d.notify("STOPPING=1")
		d.leave(ctx)
		if err == nil { // else the group ends the rest, once it has kept the error
			endRest()
		}
		return err
	})
	d.notify("READY=1")
	err := g.Wait()
	d.closeAudit()
	// An orderly end is no error.
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	d.log.Info("the agent has ended", "error", err)
	return err
}

// runNode runs the node, if there is one, until ctx ends.
func (d *Daemon) runNode(ctx context.Context) error {
	if d.agent != nil {
		return d.agent.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// HTTPAddr is the URL of the HTTP API, with the port that was bound.
func (d *Daemon) HTTPAddr() string {
	if d.conf.TLS.HTTP {
		return "https://" + d.http.Addr().String()
	}
	return "http://" + d.http.Addr().String()
}

// RPCAddr is the host:port of the server's RPC listener, or "" without a server.
func (d *Daemon) RPCAddr() string {
	if d.rpc == nil {
		return ""
	}
	return d.rpc.Addr().String()
}

// NodeID is the ID of the node, or the zero ID without one.
func (d *Daemon) NodeID() berth.NodeID {
	if d.agent == nil {
		return berth.NodeID{}
	}
	return d.agent.NodeID()
}

// Supervise is the process that agents start for each allocation. It takes the
// allocation's ID and returns the exit status of the process.
func Supervise(args []string) int {
	if err := failpoint.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return supervise.Main(args)
}
