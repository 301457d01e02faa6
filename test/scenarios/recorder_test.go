//go:build faults

package scenarios

import (
	"context"
	"net/http"
	"time"

	"berth/test/bed"
	"berth/test/record"
)

type event = record.Event

// terminal says that an allocation holds nothing of its node any more.
var terminal = record.Terminal

// records records what the event streams of all servers tell, until the cluster
// ends.
func records(c *cluster) *record.Recorder {
	r := record.New()
	ctx, cancel := context.WithCancel(context.Background())
	c.tending.Go(func() { <-c.over; cancel() })
	for _, a := range c.servers {
		c.tending.Go(func() {
			for ctx.Err() == nil {
				follow(ctx, r, a)
				select { // it is away
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	return r
}

func follow(ctx context.Context, r *record.Recorder, a *agent) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, a.addr()+r.Path(a.Name), nil)
	if err != nil {
		return
	}
	resp, err := bed.HTTP.Do(q)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	r.Read(a.Name, resp.Body)
}

// ordered checks that whatever the incarnation old owned went before it did, that
// the next one came then, and that nothing of the next came before.
func (c *cluster) ordered(old, next string) {
	c.Helper()
	c.until("its events are recorded", func() string {
		if c.recorder.Index("Deleted", old) == 0 || next != "" && c.recorder.Index("Added", next) == 0 {
			return "there is no event of its end"
		}
		return ""
	})
	for _, m := range c.recorder.Order(old, next) {
		c.Error(m)
	}
}

// orderCheck is ordered of an incarnation that owned something.
func (c *cluster) orderCheck(old, next string) {
	c.Helper()
	c.ordered(old, next)
	n := 0
	for _, e := range c.recorder.Events() {
		if e.Owner == old && e.Type == "Deleted" {
			n++
		}
	}
	if n == 0 {
		c.Errorf("nothing of what %s owned was deleted", old)
	}
}

// never checks that nothing was made for an owner after an index.
func (c *cluster) never(owner string, after uint64) {
	c.Helper()
	for _, e := range c.recorder.Made(owner, after) {
		c.Errorf("after %d: %v", after, &e)
	}
}
