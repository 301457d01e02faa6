package real

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/internal/eventually"
)

// member is how a server is one of three, the gossip of which is at these
// ports.
func member(ports []int, i int) string {
	var others []string
	for k, p := range ports {
		if k != i {
			others = append(others, fmt.Sprintf(`"127.0.0.1:%d"`, p))
		}
	}
	return fmt.Sprintf(`
bind_addr = "127.0.0.1"
ports { serf = %d }
server {
  enabled          = true
  bootstrap_expect = %d
  server_join {
    retry_join     = [%s]
    retry_interval = "1s"
  }
}
autopilot {
  server_stabilization_time = "1s"
}`, ports[i], len(ports), strings.Join(others, ", "))
}

// cluster starts servers that make up a cluster, and waits until one leads.
func (w *world) cluster(n int) (servers []*agent) {
	w.t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = freePort(w.t)
	}
	for i := range ports {
		servers = append(servers, w.agent(fmt.Sprint("s", i+1), member(ports, i)))
	}
	for _, s := range servers {
		s.joined()
	}
	return servers
}

// leads returns which of the servers leads, as those that answer say; nil if
// they do not agree.
func leads(servers []*agent) *agent {
	said := map[string]bool{}
	for _, s := range servers {
		var at string
		if !s.Running() {
			continue
		}
		if _, err := s.try("GET", "/v1/status/leader", "", &at); err != nil || at == "" {
			return nil
		}
		said[at] = true
	}
	for _, s := range servers {
		if len(said) == 1 && said[s.rpc] && s.Running() {
			return s
		}
	}
	return nil
}

// leader waits until the servers agree on who leads, and returns it.
func (w *world) leader(servers []*agent) (leader *agent) {
	w.t.Helper()
	w.until("the servers agree on who leads", func() string {
		if leader = leads(servers); leader == nil {
			return "they do not"
		}
		return ""
	})
	return leader
}

func lived(servers []*agent) (out []*agent) {
	for _, s := range servers {
		if s.Running() {
			out = append(out, s)
		}
	}
	return out
}

// Three servers run a job. Whoever is asked answers the same; the leader is
// killed, and the next update of the job goes through any of the others; it
// comes back and knows what it missed.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.cluster(3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, fmt.Sprintf("%q", s.rpc))
	}
	node := w.agent("node", `client {
  enabled = true
  servers = [`+strings.Join(addrs, ", ")+`]
}`)
	node.joined()
	job := func(version string) string {
		return w.file("web.nomad", `
job "web" {
  meta { version = "`+version+`" }
  update { max_parallel = 0 }
  group "g" {
    count = 2
    `+sh(`echo "version `+version+`"; while :; do sleep 0.1; done`)+`
  }
}`)
	}
	same := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			w.until("all servers answer the same to "+path, func() string {
				var texts []string
				for _, s := range lived(servers) {
					var v any
					if _, err := s.try("GET", path, "", &v); err != nil {
						return err.Error()
					}
					texts = append(texts, fmt.Sprint(v))
				}
				if len(slices.Compact(texts)) != 1 {
					return strings.Join(texts, "\n")
				}
				return ""
			})
		}
	}
	running := func(version string) {
		t.Helper()
		w.until("version "+version+" runs", func() string {
			for _, s := range lived(servers) {
				n := 0
				for _, al := range s.allocs("web") {
					if al.ClientStatus == "running" && al.DesiredStatus == "run" {
						if strings.Contains(s.berth("alloc", "logs", al.ID, "main").Out, "version "+version) {
							n++
						}
					}
				}
				if n != 2 {
					return fmt.Sprintf("%d of 2, says %s", n, s.Name)
				}
			}
			return ""
		})
	}
	for i, s := range servers {
		version := fmt.Sprint("1.", i)
		s.good("job", "run", "-detach", job(version))
		running(version)
	}
	same("/v1/job/web", "/v1/job/web/evaluations", "/v1/nodes", "/v1/job/web/allocations", "/v1/status/peers", "/v1/status/leader")

	for round := range 2 {
		w.until("all vote", func() string {
			for _, s := range servers {
				var self struct{ Stats map[string]map[string]string }
				s.get("/v1/agent/self", &self)
				if c := self.Stats["raft"]["latest_configuration"]; strings.Count(c, "Suffrage:Voter") != 3 {
					return s.Name + ": " + c
				}
			}
			return ""
		})
		old := w.leader(servers)
		var before struct{ ModifyIndex uint64 }
		old.get("/v1/job/web", &before)
		old.Kill()
		began := time.Now()
		for i, s := range lived(servers) {
			version := fmt.Sprintf("2.%d.%d", round, i)
			s.good("job", "run", "-detach", job(version))
			if i == 0 {
				t.Logf("the first write after the leader was killed took %v", time.Since(began).Round(time.Millisecond))
			}
			running(version)
		}
		old.start()
		old.joined()
		var after struct{ ModifyIndex uint64 }
		old.get("/v1/job/web", &after)
		if after.ModifyIndex <= before.ModifyIndex {
			t.Errorf("the server that was killed answers with index %d, %d before", after.ModifyIndex, before.ModifyIndex)
		}
		w.until("it knows all", func() string {
			leader := leads(servers)
			if leader == nil {
				return "they do not agree on who leads"
			}
			var stale, now struct{ ModifyIndex uint64 }
			h, err := old.try(http.MethodGet, "/v1/job/web?stale", "", &stale)
			if err != nil {
				return err.Error()
			}
			leader.get("/v1/job/web", &now)
			if stale != now || h.Get("X-Nomad-KnownLeader") != "true" {
				return fmt.Sprint(stale, now, h)
			}
			return ""
		})
	}
	same("/v1/job/web", "/v1/nodes", "/v1/job/web/allocations", "/v1/status/peers", "/v1/status/leader")
	w.until("the members are shown with their leader", func() string {
		return missing(servers[0].good("server", "members"), "true")
	})
}

// updater registers one job again and again, each time as a new version. What a
// server cannot take it brings to the next.
type updater struct {
	servers []*agent
	job     string

	acked   int // the newest version that was acknowledged
	repeats int // of requests to another server
	longest time.Duration
	failed  error // of a request that no server took in time
}

// run writes at each tick until over is closed.
func (x *updater) run(over <-chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for at := 0; x.failed == nil; {
		select {
		case <-tick.C:
		case <-over:
			return
		}
		began, version := time.Now(), x.acked+1
		body := fmt.Sprintf(`{"Job":{"ID":%q,"Meta":{"version":"%d"},"TaskGroups":[{"Name":"g","Count":0,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}}`, x.job, version)
		for {
			at++
			_, err := x.servers[at%len(x.servers)].try(http.MethodPut, "/v1/jobs", body, nil)
			if err == nil {
				x.acked, x.longest = version, max(x.longest, time.Since(began))
				break
			}
			var no *refused
			if errors.As(err, &no) && no.code/100 != 5 || time.Since(began) > eventually.Limit {
				x.failed = fmt.Errorf("version %d of %s, after %v: %w", version, x.job, time.Since(began), err)
				return
			}
			x.repeats++
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// All servers are restarted, one after the other, under 20 writes a second: no
// write fails that is brought to the next server, what was acknowledged is
// there, and the tasks of the agent run on.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := w.cluster(3)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, fmt.Sprintf("%q", s.rpc))
	}
	node := w.agent("node", `client {
  enabled = true
  servers = [`+strings.Join(addrs, ", ")+`]
}`)
	node.joined()
	servers[0].good("job", "run", w.file("stays.nomad", `
job "stays" {
  group "g" {
    `+sh(`while :; do sleep 0.1; done`)+`
  }
}`))
	tasks := func(s *agent) (out []string) {
		for _, al := range s.allocs("stays") {
			out = append(out, fmt.Sprint(al.ID, " ", al.ClientStatus, " ", al.TaskStates["main"].State, " restarts ", al.TaskStates["main"].Restarts))
		}
		return out
	}
	var before []string
	w.until("the task runs", func() string {
		before = tasks(servers[0])
		return missing(strings.Join(before, "\n"), "running running restarts 0")
	})
	healthy := func() {
		t.Helper()
		w.until("autopilot finds all servers healthy", func() string {
			var h struct {
				Healthy bool
				Servers []struct {
					Name, Version, Berth string
					Healthy, Voter       bool
				}
			}
			if _, err := servers[0].try("GET", "/v1/operator/autopilot/health", "", &h); err != nil {
				return err.Error()
			}
			for _, s := range h.Servers {
				if !s.Healthy || !s.Voter || s.Berth == "" || s.Berth == s.Version {
					return fmt.Sprint(h)
				}
			}
			if !h.Healthy || len(h.Servers) != len(servers) {
				return fmt.Sprint(h)
			}
			return ""
		})
	}
	healthy()
	const jobs, each = 10, 500 * time.Millisecond // 20 a second
	updaters := make([]*updater, jobs)
	over := make(chan struct{})
	var all sync.WaitGroup
	for i := range updaters {
		updaters[i] = &updater{servers: servers, job: fmt.Sprint("job-", i)}
		all.Go(func() { updaters[i].run(over, each) })
	}
	began := time.Now()
	for i, s := range servers {
		leads := leads(servers) == s
		if code := s.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("%s ended with exit code %d", s.Name, code)
		}
		s.start()
		s.joined()
		healthy()
		t.Logf("server %d (leader: %v) was restarted after %v", i+1, leads, time.Since(began).Round(time.Millisecond))
	}
	close(over)
	all.Wait()
	took := time.Since(began)
	var longest time.Duration
	writes, repeats := 0, 0
	for _, x := range updaters {
		if x.failed != nil {
			t.Error(x.failed)
		}
		longest, writes, repeats = max(longest, x.longest), writes+x.acked, repeats+x.repeats
		for _, s := range servers {
			var job struct{ Meta map[string]string }
			s.get("/v1/job/"+x.job, &job)
			if job.Meta["version"] != fmt.Sprint(x.acked) {
				t.Errorf("%s has version %s of %s, of which %d was acknowledged", s.Name, job.Meta["version"], x.job, x.acked)
			}
		}
	}
	t.Logf("%d writes in %v, %d were brought to another server, the longest took %v", writes, took.Round(time.Millisecond), repeats, longest.Round(time.Millisecond))
	for _, s := range servers {
		if after := tasks(s); !slices.Equal(after, before) {
			t.Errorf("%s says of the tasks\n%v\nbefore they were\n%v", s.Name, after, before)
		}
	}
}
