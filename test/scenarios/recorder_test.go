package scenarios

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one change of an object that has an owner or is one.
type event struct {
	Index       uint64
	Type        string // Added, Modified, Deleted; of an allocation Placed, Modified, Retired
	Kind, Name  string
	UID, Owner  string // Owner is the job, also of allocations
	Cause       string
	Generation  uint64
	LaunchCount uint64
	State       string
	ID          string // of an allocation
	Node        string
	Status      string
}

func (e *event) String() string {
	return fmt.Sprintf("%6d  %-8s %-14s %-32s %s of %s gen %d launch %d %s %s %s", e.Index, e.Type, e.Kind, e.Name, e.UID, e.Owner, e.Generation, e.LaunchCount, e.State, e.Status, e.Cause)
}

// recorder keeps what the event streams of all servers tell. Each tells the
// same, and one of them always runs.
type recorder struct {
	mu   sync.Mutex
	seen map[event]bool
}

// record records until the cluster ends.
func record(c *cluster) *recorder {
	r := &recorder{seen: map[event]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	c.tending.Go(func() { <-c.over; cancel() })
	for _, a := range c.servers {
		c.tending.Go(func() {
			for index := uint64(1); ctx.Err() == nil; {
				index = r.follow(ctx, a, index)
				select { // it is away
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return r
}

// follow reads the stream of one server from an index on, and returns the index
// that it came to.
func (r *recorder) follow(ctx context.Context, a *agent, index uint64) uint64 {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/event/stream?topic=Resource&topic=Allocation&index=%d", a.addr(), index), nil)
	if err != nil {
		return index
	}
	resp, err := web.Do(q)
	if err != nil {
		return index
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var batch struct {
			Index  uint64
			Error  string
			Oldest uint64
			Events []struct {
				Index   uint64
				Type    string
				Payload struct {
					Resource *struct {
						Kind, Name, UID, OwnerUID, Cause, State string
						Generation, LaunchCount                 uint64
					}
					Allocation *struct {
						ID, Name, UID, OwnerUID, NodeName, ClientStatus string
						PE                                              *struct{ LaunchCount uint64 }
						CreateIndex                                     uint64
					}
				}
			}
		}
		if lines.Decode(&batch) != nil {
			return index
		}
		if batch.Error != "" {
			return max(index, batch.Oldest)
		}
		index = max(index, batch.Index)
		r.mu.Lock()
		for _, e := range batch.Events {
			v := event{Index: e.Index, Type: e.Type}
			if p := e.Payload.Resource; p != nil {
				v.Kind, v.Name, v.UID, v.Owner, v.Cause, v.State = p.Kind, p.Name, p.UID, p.OwnerUID, p.Cause, p.State
				v.Generation, v.LaunchCount = p.Generation, p.LaunchCount
			}
			if p := e.Payload.Allocation; p != nil {
				v.Kind, v.Name, v.UID, v.Owner, v.ID, v.Node, v.Status = "Allocation", p.Name, p.UID, p.OwnerUID, p.ID, p.NodeName, p.ClientStatus
				switch {
				case terminal(p.ClientStatus):
					v.Type = "Retired"
				case p.CreateIndex == e.Index:
					v.Type = "Placed"
				default:
					v.Type = "Modified"
				}
				if p.PE != nil {
					v.LaunchCount = p.PE.LaunchCount
				}
			}
			r.seen[v] = true
		}
		r.mu.Unlock()
	}
}

// terminal says that an allocation holds nothing of its node any more.
func terminal(status string) bool {
	return slices.Contains([]string{"complete", "failed", "lost"}, status)
}

// events returns what was recorded, in order of index.
func (r *recorder) events() (out []event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := range r.seen {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.Kind+a.Name, b.Kind+b.Name), strings.Compare(a.UID, b.UID))
	})
	return out
}

func (r *recorder) String() string {
	var b strings.Builder
	for _, e := range r.events() {
		fmt.Fprintln(&b, &e)
	}
	return b.String()
}

// index of the one event of that type about an object, 0 if there is none.
func (r *recorder) index(kind, uid string) uint64 {
	for _, e := range r.events() {
		if e.UID == uid && e.Type == kind {
			return e.Index
		}
	}
	return 0
}

// orderCheck checks that whatever the incarnation old owned went before it did,
// that the next one came then, and that nothing of the next came before.
func (c *cluster) orderCheck(old, next string) {
	c.Helper()
	c.until("its events are recorded", func() string {
		if c.recorder.index("Deleted", old) == 0 || next != "" && c.recorder.index("Added", next) == 0 {
			return "there is no event of its end"
		}
		return ""
	})
	gone, came := c.recorder.index("Deleted", old), c.recorder.index("Added", next)
	if next != "" && gone > came {
		c.Errorf("%s went at %d, and %s came at %d", old, gone, next, came)
	}
	n := 0
	retired := map[string]bool{}
	for _, e := range c.recorder.events() {
		switch {
		case e.Owner == old && e.Type == "Deleted":
			if n++; e.Index >= gone {
				c.Errorf("the owner went at %d, before %v", gone, &e)
			}
		case e.Owner == old && e.Type == "Retired":
			if !retired[e.ID] && e.Index >= gone {
				c.Errorf("the owner went at %d, before %v", gone, &e)
			}
			retired[e.ID] = true
		case e.Owner == old && e.Index > gone && (e.Type == "Added" || e.Type == "Placed"):
			c.Errorf("after the owner went: %v", &e)
		case next != "" && e.Owner == next && e.Index <= came:
			c.Errorf("before its owner came at %d: %v", came, &e)
		}
	}
	if n == 0 {
		c.Errorf("nothing of what %s owned was deleted", old)
	}
}

// never checks that nothing was made for an owner after an index.
func (c *cluster) never(owner string, after uint64) {
	c.Helper()
	for _, e := range c.recorder.events() {
		if e.Owner == owner && e.Index > after && (e.Type == "Added" || e.Type == "Placed") {
			c.Errorf("after %d: %v", after, &e)
		}
	}
}

// atMost checks that never more than so many allocations of a job were live,
// at any index that was recorded.
func (c *cluster) atMost(most int, job string) {
	c.Helper()
	live := map[string]bool{}
	for _, e := range c.recorder.events() {
		if e.Kind != "Allocation" || !strings.HasPrefix(e.Name, job+".") {
			continue
		}
		if e.Type == "Retired" {
			delete(live, e.ID)
		} else {
			live[e.ID] = true
		}
		if len(live) > most {
			c.Errorf("at %d there were %d allocations", e.Index, len(live))
			return
		}
	}
}
