//go:build faults

package scenarios

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"
)

// slowly200 has each append to a server's log take a fifth of a second longer.
const slowly200 = "consensus/log-append-before=delay(200ms)*"

// disks has the disks of all servers be as failpoints say, also of those that are
// started later.
func (c *cluster) disks(points string) {
	c.Helper()
	for _, a := range c.servers {
		if err := os.WriteFile(a.points, []byte(points), 0o600); err != nil {
			c.Fatal(err)
		}
	}
	c.until("a write takes as long as that", func() string {
		start := time.Now()
		c.must(http.MethodPut, "/v1/system/gc", "")
		if took := time.Since(start); (points != "") != (took >= 200*time.Millisecond) {
			return took.String()
		}
		return ""
	})
}

// order are the ranks in which what a job owns is deleted: what others see of it
// first, what its processing elements need last.
var order = map[string]int{
	"Export": 0, "Import": 0, "ProcessingElement": 1, "Endpoint": 2, "Config": 2, "ParallelRegion": 2, "HostPool": 2,
}

// A job is deleted in the foreground while every write to the log of every server
// takes long; the second time its leader dies in the middle of it. It goes in
// order, to the last, and in time.
func TestSlowDeletion(t *testing.T) {
	long(t)
	c := newCluster(t, options{slow: true})
	for _, killed := range []bool{false, true} {
		c.disks("")
		c.whole()
		first := c.register(append(slowly(2), `"Width":3`, `"Width":1`)...)
		c.settled(3, 1)
		c.disks(slowly200)
		lead, start := c.leader(), time.Now()
		if code, text := c.remove("propagation=foreground"); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if killed {
			c.until("something of it has gone", func() string {
				for _, e := range c.recorder.Events() {
					if e.Owner == first && e.Type == "Deleted" {
						return ""
					}
				}
				return "nothing has"
			})
			lead.Kill()
			if at := c.recorder.Index("Deleted", first); at > 0 {
				t.Errorf("it was gone at %d, before the leader was killed", at)
			}
		}
		c.gone(first)
		t.Logf("killed %t: gone after %v", killed, time.Since(start))
		c.orderCheck(first, "")
		c.inOrder(first, 3)
	}
	c.disks("")
	c.whole()
	c.register(`"Width":3`, `"Width":1`)
	c.settled(3, 1)
}

// inOrder checks that an incarnation was marked, that what it ran ended then, and
// that what it owned went rank by rank.
func (c *cluster) inOrder(uid string, pes int) {
	c.Helper()
	var marked, last uint64
	rank, gone, ended := 0, map[string]int{}, map[string]uint64{}
	for _, e := range c.recorder.Events() {
		switch {
		case e.UID == uid && e.Deleting && marked == 0:
			marked = e.Index
		case e.Owner != uid:
		case e.Type == "Retired":
			if ended[e.Name] == 0 {
				ended[e.Name] = e.Index
			}
		case e.Type == "Deleted":
			gone[e.Kind]++
			if marked == 0 || e.Index <= marked || e.Index < last {
				c.Errorf("marked at %d, %d before: %v", marked, last, &e)
			}
			if r, known := order[e.Kind]; !known || r < rank {
				c.Errorf("after what is deleted later: %v", &e)
			} else {
				rank, last = r, e.Index
			}
			if e.Kind == "ProcessingElement" && (ended[e.Name] == 0 || ended[e.Name] > e.Index) {
				c.Errorf("what it ran has not ended: %v", &e)
			}
		}
	}
	if !slices.Equal([]int{gone["ProcessingElement"], gone["Config"], gone["Endpoint"]}, []int{pes, pes, pes}) || gone["Export"] == 0 || gone["HostPool"] == 0 {
		c.Errorf("deleted were %s", fmt.Sprint(gone))
	}
}
