package place

import (
	"testing"

	"berth"
	"berth/internal/condition"
)

func TestResolve(t *testing.T) {
	n := &berth.Node{
		ID: berth.NodeID{1}, Name: "alpha", Datacenter: "dc1", NodeClass: "big", NodePool: "gpu",
		Attributes: map[string]string{"cpu.arch": "amd64", "unique.host": "h"}, Meta: map[string]string{"rack": "r1", "empty": ""},
	}
	for _, c := range []struct {
		target, want string
		ok, unique   bool
	}{
		{"plain text", "plain text", true, false}, {"${attr.cpu.arch}", "amd64", true, false}, {"${attr.unique.host}", "h", true, true},
		{"${attr.none}", "", false, false}, {"${meta.rack}", "r1", true, false}, {"${meta.empty}", "", true, false}, {"${meta.none}", "", false, false},
		{"${meta.unique.x}", "", false, true}, {"${node.unique.id}", n.ID.String(), true, true}, {"${node.unique.name}", "alpha", true, true},
		{"${node.datacenter}", "dc1", true, false}, {"${node.class}", "big", true, false}, {"${node.pool}", "gpu", true, false},
		{"${node.region}", berth.DefaultRegion, true, false}, {"${node.other}", "", false, false}, {"${env.X}", "", false, false},
	} {
		v, ok := condition.Resolve(c.target, n, "")
		if v != c.want || ok != c.ok || unique(c.target) != c.unique {
			t.Errorf("%s: %q, %v, unique %v", c.target, v, ok, unique(c.target))
		}
	}
	if v, ok := condition.Resolve("${node.region}", n, "eu"); v != "eu" || !ok {
		t.Errorf("the region: %q, %v", v, ok)
	}
}
