package gossip

import (
	"net"
	"strconv"

	"github.com/hashicorp/serf/serf"
)

// Member is a server of the pool.
type Member struct {
	Name       string // "<name>.<region>"
	ID         string // its ID in Raft
	Region     string
	Datacenter string
	RPC        string // host:port of its RPC port; "" if it publishes none
	Addr       string // its gossip address
	Port       uint16
	Status     Status
	Expect     int
	Voter      bool // false if it never votes
	Build      string
	Berth      string // its own version, "" if it publishes none; Build is the version of the API that it serves
	LogVersion int    // the log version that it supports; 1 if it publishes none
	Tags       map[string]string

	ProtocolMin, ProtocolMax, ProtocolCur uint8
	DelegateMin, DelegateMax, DelegateCur uint8
}

// Status is the status of a member.
type Status string

// The statuses of a member.
const (
	Alive   Status = "alive"
	Leaving Status = "leaving" // it announced that it leaves
	Left    Status = "left"
	Failed  Status = "failed" // it does not answer
)

// role distinguishes our servers from those of other systems that use serf,
// Nomad among them. Their logs hold other commands, so neither may accept the
// other as a peer.
const role = "berth"

// clusterTag is the tag for the ID of a server's cluster.
const clusterTag = "cluster"

// logVersionTag is the tag for the log version that a server supports. Builds
// that only know the first log version do not set it.
const logVersionTag = "log_version"

// berthTag is the tag for a server's own version.
const berthTag = "berth"

// tags returns what a server publishes about itself, under Nomad's names.
func (c *Config) tags() map[string]string {
	t := map[string]string{
		"role": role, "region": c.Region, "dc": c.Datacenter, "id": c.ID, "build": c.Build,
		"vsn": "1", "mvn": "1", "raft_vsn": "3", "expect": strconv.Itoa(c.Expect),
	}
	// Tags without a value are left out: gossip limits the size of all tags.
	if host, port, err := net.SplitHostPort(c.RPC); err == nil {
		t["rpc_addr"], t["port"] = host, port
	}
	if c.Cluster != "" {
		t[clusterTag] = c.Cluster
	}
	if c.Berth != "" {
		t[berthTag] = c.Berth
	}
	if c.LogVersion > 0 {
		t[logVersionTag] = strconv.Itoa(c.LogVersion)
	}
	if c.Expect == 1 {
		t["bootstrap"] = "1"
	}
	if !c.Voter {
		t["nonvoter"] = "1"
	}
	return t
}

// memberOf reads what a member publishes. It must accept anything.
func memberOf(m *serf.Member) Member {
	out := Member{
		Name: m.Name, ID: m.Tags["id"], Region: m.Tags["region"], Datacenter: m.Tags["dc"],
		Addr: m.Addr.String(), Port: m.Port, Status: Status(m.Status.String()),
		Voter: m.Tags["nonvoter"] == "", Build: m.Tags["build"], Berth: m.Tags[berthTag], Tags: m.Tags,
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur,
	}
	out.Expect, _ = strconv.Atoi(m.Tags["expect"])
	out.LogVersion, _ = strconv.Atoi(m.Tags[logVersionTag])
	out.LogVersion = max(out.LogVersion, 1)
	if host, port := m.Tags["rpc_addr"], m.Tags["port"]; host != "" && port != "" {
		out.RPC = net.JoinHostPort(host, port)
	}
	return out
}
