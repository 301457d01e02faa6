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

// gate decides who is taken in: no servers of another system or of another
// cluster of the region, and no second server of a name. memberlist asks it, not serf, which forgets which of the
// members are dead.
//
// It runs inside of memberlist's lock, so it must ask nothing of memberlist.
type gate struct{ p *Pool }

// NotifyMerge implements memberlist.MergeDelegate: it is asked when a member
// joins through another, by both, about all that the other knows.
func (g gate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if n.State == memberlist.StateDead || n.State == memberlist.StateLeft {
			continue // it only was here once
		}
		if err := g.NotifyAlive(n); err != nil {
			return err
		}
	}
	return nil
}

// NotifyAlive implements memberlist.AliveDelegate: it is asked whenever a
// member is said to be alive.
func (g gate) NotifyAlive(n *memberlist.Node) error {
	tags := readTags(n.Meta)
	err := g.p.fits(n, tags)
	if err != nil {
		g.p.told.once(n.Name+" "+tags["id"], func() {
			g.p.log.Error("a server was not taken in", "server", n.Name, "address", address(n.Addr, n.Port), "error", err)
		})
	}
	return err
}

func (p *Pool) fits(n *memberlist.Node, tags map[string]string) error {
	id, region, at := tags["id"], tags["region"], address(n.Addr, n.Port)
	switch {
	case tags["role"] != role:
		return fmt.Errorf("%s at %s is not a server of this system: its role is %q", n.Name, at, tags["role"])
	case id == "" || region == "" || !strings.HasSuffix(n.Name, "."+region):
		return fmt.Errorf("%s at %s does not say who it is: id %q, region %q", n.Name, at, id, region)
	}
	s := p.serf.Load()
	if s == nil { // it is itself that it takes in first
		return nil
	}
	members := s.Members()
	if theirs := tags[clusterTag]; theirs != "" && region == p.config.Region {
		if here := p.ofCluster(members); here != "" && here != theirs {
			return fmt.Errorf("%s at %s is part of another cluster of region %s: of %s, and here it is %s", n.Name, at, region, theirs, here)
		}
	}
	for _, old := range members {
		// A server whose data was lost comes back to its place with another ID.
		place := address(old.Addr, old.Port)
		if old.Name == n.Name && old.Tags["id"] != id && old.Status == serf.StatusAlive && place != at {
			return fmt.Errorf("the name %s is taken by two servers: %s at %s, and %s at %s; give one of them another name", n.Name, old.Tags["id"], place, id, at)
		}
	}
	return nil
}

// ofCluster returns the cluster that the pool is of: that of this server, or,
// if it is part of none yet, of those whom it met first. "": there is none.
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

func address(ip net.IP, port uint16) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(int(port)))
}

// readTags reads what a member says of itself as serf writes it: a byte that
// says so, then a map. It returns nil for what is not that.
func readTags(meta []byte) (tags map[string]string) {
	if len(meta) == 0 || meta[0] != 255 {
		return nil
	}
	if codec.NewDecoderBytes(meta[1:], &codec.MsgpackHandle{}).Decode(&tags) != nil {
		return nil
	}
	return tags
}

// conflicts keeps what was told, so that a server that tries again and again
// does not fill the log.
type conflicts struct {
	mu   sync.Mutex
	told map[string]bool
}

func (c *conflicts) once(key string, tell func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil || len(c.told) > 100 {
		c.told = map[string]bool{}
	}
	if !c.told[key] {
		c.told[key] = true
		tell()
	}
}
