package gossip

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// gate decides which servers are admitted: no servers of another system or of
// another cluster of the region, and no second server of a name. It plugs into
// memberlist, not serf, because serf does not say which of the members are
// dead.
//
// It runs inside memberlist's lock, so it must not call memberlist.
type gate struct{ p *Pool }

// NotifyMerge implements memberlist.MergeDelegate. It is called when a member
// joins through another, on both, with all members that the other knows.
func (g gate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if n.State == memberlist.StateDead || n.State == memberlist.StateLeft {
			continue // it is no longer a member
		}
		if err := g.NotifyAlive(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive implements memberlist.AliveDelegate. It is called whenever a
// member is reported alive.
func (g gate) NotifyAlive(n *memberlist.Node) error {
	tags := readTags(n.Meta)
	err := g.p.admits(n, tags)
	if err != nil {
		g.p.logged.once(n.Name+" "+tags["id"], func() {
			g.p.log.Error("a server was rejected", "server", n.Name, "address", address(n.Addr, n.Port), "error", err)
		})
	}
	return err
}

// admits returns nil if n may be a member, else why not. It refuses other
// systems, other clusters of the same region, and a second server under the
// name of a live one.
func (p *Pool) admits(n *memberlist.Node, tags map[string]string) error {
	id, region, at := tags["id"], tags["region"], address(n.Addr, n.Port)
	switch {
	case tags["role"] != role:
		return fmt.Errorf("%s at %s is not a server of this system: role %q", n.Name, at, tags["role"])
	case id == "" || region == "" || !strings.HasSuffix(n.Name, "."+region):
		return fmt.Errorf("%s at %s does not identify itself: id %q, region %q", n.Name, at, id, region)
	}
	s := p.serf.Load()
	if s == nil { // the first member is this server itself
		return nil
	}
	members := s.Members()
	// A server without an ID of the cluster has not joined one yet.
	if theirs := tags[clusterTag]; theirs != "" && region == p.config.Region {
		if here := p.ofCluster(members); here != "" && here != theirs {
			return fmt.Errorf("%s at %s belongs to another cluster of region %s: %s, but this one is %s", n.Name, at, region, theirs, here)
		}
	}
	for _, old := range members {
		// A server that lost its data returns to its address with another ID.
		place := address(old.Addr, old.Port)
		if old.Name == n.Name && old.Tags["id"] != id && old.Status == serf.StatusAlive && place != at {
			return fmt.Errorf("two servers have the name %s: %s at %s, and %s at %s; rename one of them", n.Name, old.Tags["id"], place, id, at)
		}
	}
	return nil
}

// ofCluster returns the cluster of the pool: this server's, or, if it has none
// yet, that of the first other member that has one. "" means none.
func (p *Pool) ofCluster(members []serf.Member) string {
	if own := p.cluster.Load(); own != nil {
		return *own
	}
	for _, m := range members {
		if m.Tags["region"] == p.config.Region && m.Status == serf.StatusAlive && m.Tags[clusterTag] != "" {
			return m.Tags[clusterTag]
		}
	}
	return ""
}

// address returns ip and port as host:port.
func address(ip net.IP, port uint16) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(int(port)))
}

// readTags decodes the tags of a member as serf encodes them: a byte that marks
// the encoding, then a map. It returns nil for anything else.
func readTags(meta []byte) (tags map[string]string) {
	if len(meta) == 0 || meta[0] != 255 {
		return nil
	}
	if codec.NewDecoderBytes(meta[1:], &codec.MsgpackHandle{}).Decode(&tags) != nil {
		return nil
	}
	return tags
}

// conflicts remembers what was logged, so that a server that tries again and
// again does not fill the log.
type conflicts struct {
	mu     sync.Mutex
	logged map[string]bool
}

// once calls tell if it was not called for key yet. The memory is cleared after
// 100 keys, so a message can repeat.
func (c *conflicts) once(key string, tell func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logged == nil || len(c.logged) > 100 {
		c.logged = map[string]bool{}
	}
	if !c.logged[key] {
		c.logged[key] = true
		tell()
	}
}
