package gossip

import (
	"net"
	"strconv"

	"github.com/hashicorp/serf/serf"
)

// Member is a server as the pool knows it.
type Member struct {
	Name       string // "<name>.<region>"
	ID         string // by which consensus knows it
	Region     string
	Datacenter string
	RPC        string // host:port at which its RPC port is reached; "" if it says none
	Addr       string // where it gossips
	Port       uint16
	Status     Status
	Expect     int
	Voter      bool // false: it never votes
	Build      string
	Berth      string // its own version, "" if it does not say; Build is that of the API which it serves
	LogDialect int    // the dialect of the log that it knows; 1 if it does not say
	Tags       map[string]string

	ProtocolMin, ProtocolMax, ProtocolCur uint8
	DelegateMin, DelegateMax, DelegateCur uint8
}

// Status is how a member fares.
type Status string

// What a Status can be.
const (
	Alive   Status = "alive"
	Leaving Status = "leaving" // it said that it goes
	Left    Status = "left"
	Failed  Status = "failed" // it is not heard
)

// role is what tells our servers from those of other systems that speak serf,
// Nomad's among them: they agree on a state by other commands, so neither may
// take the other for a peer.
const role = "berth"

// clusterTag is the tag by which a server says of which cluster it is part.
const clusterTag = "cluster"

// dialectTag is the tag by which a server says which dialect of the log it
// knows. Builds that know the first alone do not have it.
const dialectTag = "log_dialect"

// berthTag is the tag by which a server says which build of ours it is.
const berthTag = "berth"

// tags is what a server says of itself, in the words of Nomad.
func (c *Config) tags() map[string]string {
	t := map[string]string{
		"role": role, "region": c.Region, "dc": c.Datacenter, "id": c.ID, "build": c.Build,
		"vsn": "1", "mvn": "1", "raft_vsn": "3", "expect": strconv.Itoa(c.Expect),
	}
	if host, port, err := net.SplitHostPort(c.RPC); err == nil {
		t["rpc_addr"], t["port"] = host, port
	}
	if c.Cluster != "" {
		t[clusterTag] = c.Cluster
	}
	if c.Berth != "" {
		t[berthTag] = c.Berth
	}
	if c.LogDialect > 0 {
		t[dialectTag] = strconv.Itoa(c.LogDialect)
	}
	if c.Expect == 1 {
		t["bootstrap"] = "1"
	}
	if !c.Voter {
		t["nonvoter"] = "1"
	}
	return t
}

// memberOf reads what a member says of itself. Others may say anything.
func memberOf(m *serf.Member) Member {
	out := Member{
		Name: m.Name, ID: m.Tags["id"], Region: m.Tags["region"], Datacenter: m.Tags["dc"],
		Addr: m.Addr.String(), Port: m.Port, Status: Status(m.Status.String()),
		Voter: m.Tags["nonvoter"] == "", Build: m.Tags["build"], Berth: m.Tags[berthTag], Tags: m.Tags,
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur,
	}
	out.Expect, _ = strconv.Atoi(m.Tags["expect"])
	out.LogDialect, _ = strconv.Atoi(m.Tags[dialectTag])
	out.LogDialect = max(out.LogDialect, 1)
	if host, port := m.Tags["rpc_addr"], m.Tags["port"]; host != "" && port != "" {
		out.RPC = net.JoinHostPort(host, port)
	}
	return out
}
