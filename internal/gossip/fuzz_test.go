package gossip

import (
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Whatever a member says of itself, it is read, and only taken in if it says
// who it is.
func FuzzTags(f *testing.F) {
	f.Add("a.global", []byte{})
	f.Add("a.global", []byte("\xff\x83\xa4role\xa5berth\xa2id\xa11\xa6region\xa6global"))
	f.Add("a.global", []byte("\xff\x84\xa4role\xa5berth\xa2id\xa11\xa6region\xa6global\xa6expect\xa4many"))
	f.Add("a.global", []byte("\xff\xdf\xff\xff\xff\xff"))
	f.Add("\x00", []byte("\xff\xc1"))
	f.Fuzz(func(t *testing.T, name string, meta []byte) {
		tags := readTags(meta)
		m := memberOf(&serf.Member{Name: name, Tags: tags, Addr: net.IPv4(127, 0, 0, 1)})
		err := new(Pool).admits(&memberlist.Node{Name: name, Meta: meta}, tags)
		if err == nil && (m.ID == "" || m.Region == "" || tags["role"] != role || !strings.HasSuffix(name, "."+m.Region)) {
			t.Errorf("%q with %v was taken in", name, tags)
		}
	})
}
