package real

import (
	"fmt"
	"strings"
	"testing"
)

// A server that nobody told how many servers begin a cluster, and which knows no
// other, begins none of its own: it says that it waits, and becomes part of the
// cluster of the server that joins it.
func TestAServerWithoutBootstrapExpectWaitsToBeJoined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := freePort(t), freePort(t)
	config := func(port int, more string) string {
		return fmt.Sprintf("bind_addr = \"127.0.0.1\"\nports { serf = %d }\nserver {\n enabled = true\n%s}\n", port, more)
	}
	waits := w.agent("waits", config(first, ""))
	var at string
	if _, err := waits.try("GET", "/v1/status/leader", "", &at); err == nil && at != "" {
		t.Fatalf("it leads a cluster of its own: %s", at)
	}
	begins := w.agent("begins", config(second, " bootstrap_expect = 1\n"))
	begins.joined()
	if out := begins.good("server", "join", fmt.Sprintf("127.0.0.1:%d", first)); !strings.Contains(out, "Joined 1 server") {
		t.Errorf("joining says %q", out)
	}
	w.until("both follow one leader", func() string {
		if l := leads([]*agent{waits, begins}); l != begins {
			return fmt.Sprint(l)
		}
		return ""
	})
}
