package real

import (
	"fmt"
	"syscall"
	"testing"
)

// An agent with drain_on_shutdown that is told to end first moves its allocations
// away, and its node takes work again when it is back. What an operator decided of a
// node stays.
func TestANodeIsDrainedBeforeItsAgentEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", "server { enabled = true bootstrap_expect = 1 }")
	servers := fmt.Sprintf("client { enabled = true servers = [%q] }\n", s.rpc)
	one := w.agent("one", servers+"leave_on_terminate = true\nclient { drain_on_shutdown { deadline = \"1m\" } }")
	one.joined()
	s.good("job", "run", "-detach", w.file("web.nomad", group("service", "web", sh("exec sleep 1000"))))
	s.running("web")
	first := s.allocs("web")[0].ID
	two := w.agent("two", servers)
	two.joined()
	if code, err := one.End(syscall.SIGTERM); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	// When the process has ended, nothing of the allocation is left.
	if left := w.tasks()[first]; len(left) > 0 {
		t.Errorf("tasks run on: %v", left)
	}
	moved := func(node string) {
		t.Helper()
		w.until("it runs on "+node, func() string {
			for _, x := range s.allocs("web") {
				if x.ClientStatus == "running" && x.NodeID == node {
					return ""
				}
			}
			return fmt.Sprintf("%+v", s.allocs("web"))
		})
	}
	moved(two.nodeID)
	eligible := func(want string) {
		t.Helper()
		w.until("the node is "+want, func() string {
			n, _, err := s.nomad().Nodes().Info(one.nodeID, nil)
			if err != nil || n.SchedulingEligibility != want || n.Status != "ready" || n.LastDrain == nil || n.LastDrain.Status == "draining" {
				return fmt.Sprintf("%+v %v", n, err)
			}
			return ""
		})
	}
	w.until("the drain is complete", func() string {
		n, _, err := s.nomad().Nodes().Info(one.nodeID, nil)
		if err != nil || n.SchedulingEligibility != "ineligible" || n.LastDrain == nil || n.LastDrain.Status != "complete" {
			return fmt.Sprintf("%+v %v", n, err)
		}
		return ""
	})
	one.start()
	one.joined()
	eligible("eligible")
	// It is taken out by hand, and stays so after a restart that drains nothing.
	s.good("node", "eligibility", "-disable", one.nodeID)
	one.again()
	one.joined()
	eligible("ineligible")
}
