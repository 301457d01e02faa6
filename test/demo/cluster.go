package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/internal/freeport"
	"berth/test/bed"
)

// member is one agent of a cluster. It keeps its ports when it is started
// again.
type member struct {
	name string
	rpc  string // host:port of a server; "" of a node
	addr string // of its HTTP API
	*bed.Agent
}

const (
	clusterServers = 3
	clusterNodes   = 3
)

// clusterActs shows that a cluster of three servers survives the loss of one.
func (s *stage) clusterActs() []act {
	return []act{
		{"Three servers find each other and agree on who leads; three nodes join", s.startCluster},
		{"A job goes to whichever server is asked", s.runService},
		{"The server that leads is killed (kill -9): the service goes on, another server leads", s.killLeader},
		{"The job's next update goes through with two servers", s.updateService},
		{"The killed server is started again and catches up", s.bringBack},
		{"Everything is stopped", s.stopCluster},
	}
}

// ports returns free ports of this machine.
func ports(n int) (out []int, err error) {
	for range n {
		port, err := freeport.Take()
		if err != nil {
			return nil, err
		}
		out = append(out, port)
	}
	return out, nil
}

const serverConfig = `name      = "%s"
data_dir  = "%s"
bind_addr = "127.0.0.1"

ports {
  http = %d
  rpc  = %d
  serf = %d
}

server {
  enabled          = true
  bootstrap_expect = 3

  server_join {
    retry_join     = [%s]
    retry_interval = "1s"
  }
}

autopilot {
  server_stabilization_time = "1s" # 10s without the line
}
`

// Each node gives its own ports: here all three have one address.
const nodeConfig = `name      = "%s"
data_dir  = "%s"
bind_addr = "127.0.0.1"

ports {
  http = 0
  rpc  = 0
}

client {
  enabled           = true
  servers           = [%s]
  network_interface = "lo"
  min_dynamic_port  = %d
  max_dynamic_port  = %d
%s}

plugin "raw_exec" {
  config {
    enabled = true
  }
}
`

// startCluster starts the servers and the clients, each with its own
// configuration.
func (s *stage) startCluster() error {
	free, err := ports(3 * clusterServers)
	if err != nil {
		return err
	}
	// The ports are chosen first, because every configuration names those of
	// all servers.
	var gossip, rpc []string
	for i := range clusterServers {
		gossip = append(gossip, fmt.Sprintf(`"127.0.0.1:%d"`, free[3*i+2]))
		rpc = append(rpc, fmt.Sprintf(`"127.0.0.1:%d"`, free[3*i+1]))
	}
	for i := range clusterServers {
		m := &member{name: fmt.Sprint("s", i+1), rpc: strings.Trim(rpc[i], `"`)}
		text := fmt.Sprintf(serverConfig, m.name, filepath.Join(s.Dir, m.name), free[3*i], free[3*i+1], free[3*i+2], strings.Join(gossip, ", "))
		if i == 0 {
			fmt.Fprintf(s.out, "$ cat s1.hcl\n%s\n", text)
		}
		if err := s.join(m, text); err != nil {
			return err
		}
	}
	for i := range clusterNodes {
		m := &member{name: fmt.Sprint("n", i+1)}
		// All nodes share one address, so their port ranges must not overlap.
		from := 21_000 + 1000*i
		text := fmt.Sprintf(nodeConfig, m.name, filepath.Join(s.Dir, m.name), strings.Join(rpc, ", "), from, from+999, s.room)
		if err := s.join(m, text); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out)
	s.addr = s.members[0].addr
	if err := until(s.ctx, "all servers vote, and all nodes are ready", s.gathered); err != nil {
		return err
	}
	return s.look("server members", "operator raft list-peers", "node status")
}

// join writes the member's configuration and starts it.
func (s *stage) join(m *member, text string) error {
	if err := os.WriteFile(filepath.Join(s.Dir, m.name+".hcl"), []byte(text), 0o600); err != nil {
		return err
	}
	m.Agent = s.Agent(m.name, "-config", filepath.Join(s.Dir, m.name+".hcl"))
	s.members = append(s.members, m)
	return s.begin(m)
}

// begin starts a member and notes its HTTP address.
func (s *stage) begin(m *member) error {
	fmt.Fprintf(s.out, "$ berth agent -config %s.hcl &\n", m.name)
	err := s.launch(m.Agent)
	m.addr = m.Banner("HTTP")
	return err
}

// look runs and shows commands, split at spaces.
func (s *stage) look(commands ...string) error {
	for _, c := range commands {
		if _, err := s.show(strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// gathered reports whether all servers vote and all nodes are ready.
func (s *stage) gathered() (bool, error) {
	var raft struct {
		Servers []struct{ Voter, Leader bool }
	}
	var nodes []struct{ Status string }
	if s.get("/v1/operator/raft/configuration", &raft) != nil || s.get("/v1/nodes", &nodes) != nil {
		return false, nil
	}
	voters, leaders, ready := 0, 0, 0
	for _, x := range raft.Servers {
		if x.Voter {
			voters++
		}
		if x.Leader {
			leaders++
		}
	}
	for _, n := range nodes {
		if n.Status == "ready" {
			ready++
		}
	}
	return voters == clusterServers && leaders == 1 && ready == clusterNodes, nil
}

// healthy reports whether the leader finds all servers healthy.
func (s *stage) healthy() (bool, error) {
	var h struct {
		Healthy bool
		Voters  []string
	}
	err := s.get("/v1/operator/autopilot/health", &h) // an error if a server is not healthy
	return err == nil && h.Healthy && len(h.Voters) == clusterServers, nil
}

// leader returns the server that leads according to the server asked, or nil.
func (s *stage) leader() *member {
	var addr string
	if s.get("/v1/status/leader", &addr) != nil {
		return nil
	}
	for _, m := range s.members {
		if m.rpc != "" && m.rpc == addr {
			return m
		}
	}
	return nil
}

// killLeader kills the leader and checks that another one leads and the tasks
// go on.
func (s *stage) killLeader() error {
	if err := s.replaceLeader(s.same); err != nil {
		return err
	}
	return s.look("operator raft list-peers")
}

// replaceLeader kills the server that leads and waits until another one does.
// meanwhile is called in between.
func (s *stage) replaceLeader(meanwhile func() error) error {
	old := s.leader()
	if old == nil {
		return errors.New("no server leads")
	}
	fmt.Fprintf(s.out, "$ kill -9 %d # %s\n", old.PID(), old.name)
	old.Kill()
	killed := time.Now()
	// Later commands go to a server that still runs.
	for _, m := range s.members {
		if m.rpc != "" && m != old {
			s.addr = m.addr
		}
	}
	if err := meanwhile(); err != nil {
		return err
	}
	var now *member
	err := until(s.ctx, "another server leads", func() (bool, error) {
		now = s.leader()
		return now != nil && now != old, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s leads %.1f s after %s was killed.\n\n", now.name, time.Since(killed).Seconds(), old.name)
	return nil
}

// bringBack starts the killed server again and waits until it is healthy and
// has the same state.
func (s *stage) bringBack() error {
	var back *member
	for _, m := range s.members {
		if !m.Running() {
			back = m
		}
	}
	if err := s.begin(back); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if err := until(s.ctx, "the leader finds all servers healthy", s.healthy); err != nil {
		return err
	}
	if err := s.look("server members", "operator autopilot health"); err != nil {
		return err
	}
	return s.compare()
}

// compare shows that all servers have the same state.
func (s *stage) compare() error {
	type state struct {
		Index uint64
		Hash  string
	}
	return until(s.ctx, "all servers have the same state", func() (bool, error) {
		var first state
		text := ""
		for i, m := range s.members[:clusterServers] {
			// All are asked for the hash at the index that the first one
			// answered.
			url := m.addr + "/v1/operator/state-hash"
			if i > 0 {
				url = fmt.Sprintf("%s?index=%d", url, first.Index)
			}
			body, err := fetch(s.ctx, url)
			if err != nil {
				return false, err
			}
			var next state
			if err := json.Unmarshal([]byte(body), &next); err != nil {
				return false, fmt.Errorf("%s answers %s: %w", m.name, body, err)
			}
			if i == 0 {
				first = next
			}
			text += fmt.Sprintf("$ curl '%s' # %s\n%s\n", url, m.name, strings.TrimSpace(body))
			if next != first { // something was written in between
				return false, nil
			}
		}
		fmt.Fprintln(s.out, text)
		return true, nil
	})
}

// stopCluster stops the job and checks that nothing is left of it.
func (s *stage) stopCluster() error {
	if err := s.look("job stop -purge web", "status"); err != nil {
		return err
	}
	return s.left()
}

// left waits until nothing of any job is left, and ends all agents.
func (s *stage) left() error {
	if err := until(s.ctx, "every task has ended", func() (bool, error) { return len(s.tasks()) == 0, nil }); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "No process of a job is left.")
	return s.interruptMembers()
}

// interruptMembers ends all agents, nodes first.
func (s *stage) interruptMembers() (err error) {
	for i := len(s.members) - 1; i >= 0; i-- {
		err = errors.Join(err, interrupt(s.members[i].Agent))
	}
	s.members = nil
	return err
}
