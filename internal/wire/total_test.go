package wire

import (
	"fmt"
	"net"
	"testing"
)

// All addresses together have a limit. An eighth of it is kept for servers, and
// half of that for those that have said who they are: strangers cannot take it.
func TestConnectionsOfAllAddresses(t *testing.T) {
	const most, kept = 64, 64 / keptShare
	g := guests{most: most}
	next := 0
	enter := func() *visit {
		next++
		addr, err := net.ResolveTCPAddr("tcp", fmt.Sprintf("10.0.%d.%d:1", next/250, next%250))
		if err != nil {
			t.Fatal(err)
		}
		return g.enter(addr, 100)
	}
	var visits []*visit
	for {
		v := enter()
		if v == nil {
			break
		}
		visits = append(visits, v)
	}
	if g.plain != most-kept || g.trials != kept/2 {
		t.Fatalf("strangers have %d connections and %d on trial, want %d and %d", g.plain, g.trials, most-kept, kept/2)
	}
	// A connection on trial that turns out to be a server's makes way for another.
	for range kept / 2 {
		last := visits[len(visits)-1]
		if !last.trial || !last.trust(100) {
			t.Fatalf("a server is refused: %+v", last)
		}
		visits = visits[:len(visits)-1]
		v := enter()
		if v == nil {
			t.Fatal("nobody may show that it is a server")
		}
		visits = append(visits, v)
	}
	if g.all() != most || enter() != nil {
		t.Errorf("%d connections were let in, want %d", g.all(), most)
	}
	for _, v := range visits {
		v.leave()
	}
	if g.plain != 0 || g.trials != 0 || g.servers != kept/2 {
		t.Errorf("left are %+v", g.tally)
	}
}
