//go:build faults

package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"berth/internal/eventually"
	"berth/test/bed"
)

// callTime is how long one server may take to answer before another is asked.
const callTime = 5 * time.Second

// ask asks one agent. The code is 0 if it gave no answer.
func (a *agent) ask(method, path, body string) (code int, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	answer, err := bed.Call(ctx, method, a.addr()+path, body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.Code, answer.Text
}

// do asks the servers until one of them answers, with something else than that
// nobody leads.
func (c *cluster) do(method, path, body string) (code int, text string) {
	c.Helper()
	c.until(method+" "+path+" is answered", func() string {
		for _, a := range c.servers {
			if !a.Running() {
				continue
			}
			if code, text = a.ask(method, path, body); code != 0 && code < 500 {
				return ""
			}
		}
		return fmt.Sprintf("the last server said %d %s", code, text)
	})
	return code, text
}

// must is do for what must succeed.
func (c *cluster) must(method, path, body string) string {
	c.Helper()
	code, text := c.do(method, path, body)
	if code != http.StatusOK {
		c.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// get reads what must be there.
func (c *cluster) get(path string, into any) {
	c.Helper()
	if err := eventually.Decode([]byte(c.must(http.MethodGet, path, "")), into); err != nil {
		c.Fatalf("GET %s: %v", path, err)
	}
}

// until waits until amiss returns "". Anything else is what is still missing.
func (c *cluster) until(what string, amiss func() string) {
	c.Helper()
	if err := bed.Until(context.Background(), what, amiss); err != nil {
		c.Fatal(err)
	}
}

// watch asks for a path every 20 ms until stop is called or the cluster ends,
// and notes when the server that leads does not know it.
func (c *cluster) watch(path string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.tending.Go(func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-c.over:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for _, a := range c.servers {
				if !a.Running() {
					continue
				}
				code, text := a.ask(http.MethodGet, path, "")
				if code == http.StatusNotFound {
					c.mu.Lock()
					c.missed = append(c.missed, fmt.Sprintf("%s: %s says %d %s", path, a.Name, code, text))
					c.mu.Unlock()
				}
				if code == http.StatusOK {
					break
				}
			}
		}
	})
	return func() { cancel(); <-done }
}

// leader waits until a server leads, and returns it.
func (c *cluster) leader() (lead *agent) {
	c.Helper()
	c.until("a server leads", func() string {
		said := map[string]int{}
		n := 0
		for _, a := range c.servers {
			if !a.Running() {
				continue
			}
			n++
			code, text := a.ask(http.MethodGet, "/v1/status/leader", "")
			if code != http.StatusOK {
				return bed.Got(text)
			}
			said[strings.TrimSpace(text)]++
		}
		for _, a := range c.servers {
			if a.Running() && said[fmt.Sprintf("%q", fmt.Sprintf("127.0.0.1:%d", a.rpc))] == n {
				lead = a
				return ""
			}
		}
		return fmt.Sprint(said)
	})
	return lead
}

// newTerm waits until a server leads in a later term: the one that led before, if
// it was back in time.
func (c *cluster) newTerm(old uint64) {
	c.Helper()
	c.until("a later term has begun", func() string {
		if lead := c.leader(); c.term() <= old {
			return fmt.Sprintf("%s leads in term %d", lead.Name, c.term())
		}
		return ""
	})
}

// died waits until so many servers have ended since the cluster began.
func (c *cluster) died(n int32) {
	c.Helper()
	c.until("servers end", func() string {
		if now := c.deaths.Load(); now < n {
			return fmt.Sprintf("%d of %d have", now, n)
		}
		return ""
	})
}

// whole waits until all servers run and know who leads.
func (c *cluster) whole() {
	c.Helper()
	c.until("all servers are there", func() string {
		for _, a := range c.servers {
			if code, text := a.ask(http.MethodGet, "/v1/agent/health", ""); code != http.StatusOK {
				return a.Name + ": " + text
			}
		}
		return ""
	})
	c.leader()
}

// arm arms a point at the server that leads, once.
func (c *cluster) arm(name, when string, nth int, action string) {
	c.Helper()
	c.must(http.MethodPut, "/v1/operator/failpoint", fmt.Sprintf(`{"Name":%q,"When":%q,"Nth":%d,"Action":%q,"Once":true}`, name, when, nth, action))
}

// here arms a point at one server, once.
func (c *cluster) here(a *agent, name, when, action string) {
	c.Helper()
	code, text := a.ask(http.MethodPut, "/v1/agent/failpoint", fmt.Sprintf(`{"Name":%q,"When":%q,"Action":%q,"Once":true}`, name, when, action))
	if code != http.StatusOK {
		c.Fatalf("%s: %d %s", a.Name, code, text)
	}
}

// refused proposes a command as it stands, and wants it to be refused with a
// code.
func (c *cluster) refused(code, command, fields string, args ...any) {
	c.Helper()
	status, text := c.do(http.MethodPut, "/v1/operator/failpoint/entry", fmt.Sprintf(`{"Command":%q,"Fields":%s}`, command, fmt.Sprintf(fields, args...)))
	if status != http.StatusConflict || !strings.HasPrefix(text, code+":") {
		c.Errorf("%s, which is to be refused as %s: %d %s", command, code, status, text)
	}
}

// transfer hands leadership over.
func (c *cluster) transfer() {
	c.Helper()
	old := c.term()
	c.until("another server leads", func() string {
		code, text := c.do(http.MethodGet, "/v1/operator/raft/configuration", "")
		var raft struct {
			Servers []struct {
				ID     string
				Leader bool
			}
		}
		if err := json.Unmarshal([]byte(text), &raft); code != http.StatusOK || err != nil {
			return bed.Got(text)
		}
		for _, s := range raft.Servers {
			if !s.Leader {
				c.do(http.MethodPut, "/v1/operator/raft/transfer-leadership?id="+s.ID, "")
				break
			}
		}
		c.leader()
		if c.term() <= old {
			return bed.Got(text)
		}
		return ""
	})
}
