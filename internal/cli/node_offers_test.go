package cli

import (
	"testing"

	"berth"
	"berth/op"
)

// What a node offers by name is shown, and nothing of one that offers nothing.
func TestNodeStatusShowsWhatTheHostOffers(t *testing.T) {
	no := false
	s := nodeStatus{verbose: &no}
	plain := &op.Node{Node: &berth.Node{Name: "n1", Status: berth.NodeReady}}
	p := &page{}
	s.offers(p, plain)
	if p.text.Len() > 0 {
		t.Errorf("of nothing: %q", p.text.String())
	}
	rich := *plain.Node
	rich.HostVolumes = map[string]berth.HostVolumeInfo{"data": {Path: "/srv/data"}, "certs": {Path: "/etc/ssl", ReadOnly: true}}
	rich.HostNetworks = map[string]berth.HostNetworkInfo{"public": {CIDR: "203.0.113.0/24", ReservedPorts: "22,80"}, "in": {Interface: "eth1"}}
	s.offers(p, &op.Node{Node: &rich})
	const want = `Host Volumes
Name   ReadOnly  Source
certs  true      /etc/ssl
data   false     /srv/data

Host Networks
Name    CIDR            Interface  ReservedPorts
in      <none>          eth1       <none>
public  203.0.113.0/24  <none>     22,80
`
	if got := p.text.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
