package real

import (
	"fmt"
	"strings"
	"testing"
)

// A node takes as many allocations as its configuration says. What does not fit
// waits, says for what, and comes as soon as another ends.
func TestANodeTakesSoManyAllocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both, "client { node_max_allocs = 2 }")
	a.joined()
	if n, _, err := a.nomad().Nodes().Info(a.nodeID, nil); err != nil || n.NodeMaxAllocs != 2 {
		t.Errorf("%+v %v", n, err)
	}
	job := func(id string, count int) string {
		text := group("service", id, fmt.Sprintf("count = %d", count), sh("exec sleep 1000"))
		return w.file(id+".nomad", text)
	}
	a.good("job", "run", "-detach", job("one", 1))
	a.good("job", "run", "-detach", job("two", 2))
	w.until("one waits", func() string {
		told := a.good("job", "status", "two")
		if !strings.Contains(told, `1 node: allocations 1 requested, 0 free`) {
			return told
		}
		return ""
	})
	live := func(id string) (n int) {
		for _, x := range a.allocs(id) {
			if x.ClientStatus == "running" {
				n++
			}
		}
		return n
	}
	w.until("two run", func() string {
		if one, two := live("one"), live("two"); one != 1 || two != 1 {
			return fmt.Sprint(one, two)
		}
		return ""
	})
	a.good("job", "stop", "-detach", "one")
	w.until("the third comes", func() string {
		if two := live("two"); two != 2 {
			return fmt.Sprint(two)
		}
		return ""
	})
}
