package daemon

import (
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"berth/internal/state/codec"
	"berth/op"
)

// health is the health of the server and of the node.
func (d *Daemon) health() op.AgentHealth {
	var h op.AgentHealth
	if d.server != nil {
		h.Server = &op.Health{Ok: true, Message: "ok"}
		// A server without a leader can neither write nor serve consistent
		// reads.
		if why := d.server.Trouble(); why != "" {
			h.Server = &op.Health{Message: why}
		}
	}
	if d.agent != nil {
		h.Client = &op.Health{Ok: true, Message: "ok"}
		if err := d.agent.Alive(); err != nil {
			h.Client = &op.Health{Message: err.Error()}
		}
	}
	return h
}

// self describes this agent: its configuration, its member entry and its stats.
func (d *Daemon) self() op.AgentSelf {
	c := d.conf
	s := op.AgentSelf{
		Config: c.Public(),
		Member: op.AgentMember{
			Name: c.Name + "." + c.Region, Addr: c.RPC.Addr, Port: uint16(c.Serf.Port), Status: "alive",
			Tags: map[string]string{
				"role": "nomad", "region": c.Region, "dc": c.Datacenter, "build": c.NomadVersion, "berth": c.Version, "raft_vsn": "3",
				"log_version": strconv.Itoa(codec.LogVersion), "expect": strconv.Itoa(c.Server.BootstrapExpect),
			},
			// Fixed numbers, for tools that expect the fields of Nomad's
			// members.
			ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
		},
		Stats: map[string]map[string]string{"runtime": d.runtimeStats()},
	}
	s.Config["Version"] = map[string]any{"Version": c.NomadVersion, "Berth": c.Version}
	if d.server != nil {
		_, port, _ := net.SplitHostPort(d.RPCAddr())
		tags := s.Member.Tags
		tags["id"], tags["rpc_addr"], tags["port"], tags["vsn"], tags["mvn"] = d.server.ID(), c.RPC.Addr, port, "1", "1"
		if c.Server.BootstrapExpect == 1 {
			tags["bootstrap"] = "1"
		}
		s.Stats["nomad"] = map[string]string{
			"server": "true", "leader": strconv.FormatBool(d.server.Leads()), "leader_addr": d.server.Leading(),
			"bootstrap": strconv.FormatBool(c.Server.BootstrapExpect == 1), "known_regions": strconv.Itoa(len(d.server.Regions())),
		}
	}
	// Without gossip, as with -dev, there are no peers whose log to compare.
	if d.pool != nil {
		s.Stats["raft"] = d.server.RaftStats()
	}
	if d.agent != nil {
		s.Stats["client"] = d.agent.Stats()
	}
	return s
}

// runtimeStats returns the part "runtime" of the agent's stats: platform, Go
// version, process and uptime, all as text.
func (d *Daemon) runtimeStats() map[string]string {
	return map[string]string{
		"kernel.name": runtime.GOOS, "arch": runtime.GOARCH, "version": runtime.Version(), "max_procs": strconv.Itoa(runtime.GOMAXPROCS(0)),
		"cpu_count": strconv.Itoa(runtime.NumCPU()), "goroutines": strconv.Itoa(runtime.NumGoroutine()), "pid": strconv.Itoa(os.Getpid()),
		"uptime": time.Since(d.started).Round(time.Second).String(),
	}
}
