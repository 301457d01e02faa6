package real

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
)

// as runs a command against an agent with a token.
func (a *agent) as(token string, args ...string) bed.Result {
	a.w.t.Helper()
	a.mu.Lock()
	addr := a.addr
	a.mu.Unlock()
	return a.w.command("berth", []string{"BERTH_ADDR=" + addr, "BERTH_TOKEN=" + token}, args...)
}

// may runs a command that must succeed, with a token, and returns what it printed.
// It waits while no server leads.
func (a *agent) may(token string, args ...string) string {
	a.w.t.Helper()
	return strings.TrimSpace(a.succeeds(func() bed.Result { return a.as(token, args...) }, args))
}

// Region b has three servers and copies from region a. What is written in either is
// in both: policies, roles, global tokens, namespaces, node pools. Local tokens stay
// where they were made. Leaders of both regions are killed meanwhile. While region a
// is away, b goes on with what it has; afterwards deletions follow.
func TestRegionsHaveOneAuthority(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const root, policy = "7c2a5a0e-3f5b-4c53-9c0a-0d7c9a1b2e3f", "namespace \"team\" {\n policy = \"read\"\n}\nnode {\n policy = \"read\"\n}\n"
	gossip := freePort(t)
	a := w.agent("a1", fmt.Sprintf(`
region = "a"
ports { serf = %d }
server {
  enabled = true
  bootstrap_expect = 1
  authoritative_region = "a"
}
acl { enabled = true }`, gossip))
	a.joined()
	if _, err := a.try("PUT", "/v1/acl/bootstrap", `{"BootstrapSecret": "`+root+`"}`, nil); err != nil {
		t.Fatal(err)
	}
	copier := a.may(root, "acl", "token", "create", "-name", "replication", "-type", "management", "-global", "-t", "{{.SecretID}}")
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var b []*agent
	for i := range ports {
		b = append(b, w.agent(fmt.Sprint("b", i+1), member(ports, i), fmt.Sprintf(`
region = "b"
server {
  authoritative_region = "a"
  server_join { retry_join = ["127.0.0.1:%d", "127.0.0.1:%d"] }
}
acl {
  enabled           = true
  replication_token = %q
}`, gossip, ports[(i+1)%3], copier)))
	}
	for _, s := range b {
		s.joined()
	}
	// The bootstrap token of a is valid in b, once it is there.
	said := func(s *agent, want string, args ...string) {
		t.Helper()
		w.until(s.Name+": "+strings.Join(args, " ")+" says "+want, func() string {
			r := s.as(root, args...)
			if !strings.Contains(r.Out, want) {
				return r.String()
			}
			return ""
		})
	}
	gone := func(s *agent, args ...string) {
		t.Helper()
		w.until(s.Name+": "+strings.Join(args, " ")+" finds nothing", func() string {
			if r := s.as(root, args...); r.Code == 0 || !strings.Contains(r.Err, "not found") && !strings.Contains(r.Err, "No namespace") {
				return r.String()
			}
			return ""
		})
	}
	said(b[0], "Bootstrap Token", "acl", "token", "self")

	// What is written in b is written in a, and comes back.
	file := w.file("team.hcl", policy)
	b[0].may(root, "namespace", "apply", "-description", "from b", "team")
	b[1].may(root, "acl", "policy", "apply", "team", file)
	b[2].may(root, "node", "pool", "apply", w.file("pool.hcl", `node_pool "gpu" { description = "of both" }`))
	a.may(root, "acl", "role", "create", "-name", "readers", "-policy", "team")
	said(a, "from b", "namespace", "status", "team")
	for _, s := range b {
		said(s, "from b", "namespace", "status", "team")
		said(s, "team", "acl", "policy", "info", "team")
		said(s, "of both", "node", "pool", "info", "gpu")
		said(s, "readers", "acl", "role", "list")
	}
	global := b[0].may(root, "acl", "token", "create", "-name", "everywhere", "-role-name", "readers", "-global", "-t", "{{.SecretID}}")
	local := b[0].may(root, "acl", "token", "create", "-name", "only-in-b", "-policy", "team", "-t", "{{.SecretID}}")
	a.may(global, "acl", "token", "self")
	for _, s := range b {
		w.until("the global token is valid at "+s.Name, func() string {
			if r := s.as(global, "acl", "can-i", "read-job", "-namespace", "team"); r.Out != "yes\n" {
				return r.String()
			}
			return ""
		})
		w.holds(s.may(local, "acl", "token", "self"), "only-in-b")
	}
	if r := a.as(local, "acl", "token", "self"); r.Code == 0 || !strings.Contains(r.Err, "the token is not valid") {
		t.Errorf("the local token of b in a: %v", r)
	}
	// With the global token a request is answered in either region; what it may not
	// do, it may not do anywhere.
	w.holds(a.may(global, "acl", "token", "self", "-region", "b"), "everywhere")
	if r := b[0].as(global, "namespace", "apply", "mine"); r.Code == 0 || !strings.Contains(r.Err, "Permission denied") {
		t.Errorf("a write that is passed on: %v", r)
	}

	// A job runs in the region that it names, else in that of the agent that it is
	// sent to. "global" is what old job files name, and there is no such region.
	w.runsIn(root, a, b[0], "b")
	w.runsIn(root, b[0], a, "a")

	// The server that leads b is killed, and the one that follows goes on copying.
	leader := w.leader(b)
	leader.Kill()
	a.may(root, "acl", "policy", "apply", "after", file)
	rest := lived(b)
	said(rest[0], "after", "acl", "policy", "info", "after")
	leader.start()

	// The only server of a is killed: b keeps what it has, and cannot change it.
	a.Kill()
	w.holds(rest[0].may(global, "acl", "token", "self"), "everywhere")
	w.until("b says that a is away", func() string {
		for _, s := range b {
			if strings.Contains(s.AllSaid(), "the authoritative region cannot be copied from; what is here stays in force") {
				return ""
			}
		}
		return "no server does"
	})
	if r := rest[0].as(root, "acl", "policy", "delete", "after"); r.Code == 0 {
		t.Errorf("a write while a is away: %v", r)
	}
	a.start()
	a.joined()
	a.may(root, "acl", "policy", "delete", "after")
	a.may(root, "namespace", "delete", "team")
	a.may(root, "acl", "token", "delete", a.may(global, "acl", "token", "self", "-t", "{{.AccessorID}}"))
	for _, s := range b {
		gone(s, "acl", "policy", "info", "after")
		gone(s, "namespace", "status", "team")
		w.until("the global token has ended at "+s.Name, func() string {
			if r := s.as(global, "acl", "token", "self"); r.Code == 0 {
				return r.String()
			}
			return ""
		})
		w.holds(s.may(local, "acl", "token", "self"), "only-in-b")
	}
	// The leader of b has metrics that say so.
	w.until("the leader of b tells how far it is", func() string {
		if leader = leads(b); leader == nil {
			return "the servers do not agree"
		}
		text, err := bed.Call(t.Context(), "GET", leader.addr+"/v1/metrics?format=prometheus", "")
		for _, want := range []string{"nomad_replication_behind 0", "nomad_replication_silent_seconds ", "nomad_replication_index "} {
			if err != nil || !strings.Contains(text.Text, want) {
				return fmt.Sprintf("%q is missing: %v", want, err)
			}
		}
		return ""
	})
	for _, s := range append(b, a) {
		if log := s.AllSaid(); strings.Contains(log, copier) || strings.Contains(log, root) {
			t.Errorf("%s logs a secret", s.Name)
		}
	}
	for _, s := range append(b, a) {
		s.signal(syscall.SIGINT)
	}
}

// runsIn submits jobs to an agent: some name no region or "global", others the region
// of another agent.
func (w *world) runsIn(token string, own, other *agent, region string) {
	w.t.Helper()
	file := func(id, region string) string {
		return w.file(id+".hcl", fmt.Sprintf("job %q {\n %s\n group \"g\" {\n task \"t\" {\n driver = \"raw_exec\"\n config { command = \"/bin/true\" }\n }\n }\n}\n", id, region))
	}
	holds := func(a *agent, id, says string) {
		w.t.Helper()
		w.until(id+" is at "+a.Name, func() string {
			if r := a.as(token, "operator", "api", "/v1/job/"+id); r.Code != 0 || !strings.Contains(r.Out, says) {
				return r.String()
			}
			return ""
		})
	}
	own.may(token, "job", "run", "-detach", file(own.Name+"-plain", ""))
	own.may(token, "job", "run", "-detach", file(own.Name+"-old", `region = "global"`))
	holds(own, own.Name+"-plain", `"Region":"`+own.Name[:1]+`"`)
	holds(own, own.Name+"-old", `"Region":"`+own.Name[:1]+`"`)
	own.may(token, "job", "run", "-detach", file(own.Name+"-far", fmt.Sprintf("region = %q", region)))
	own.may(token, "job", "validate", file(own.Name+"-far", fmt.Sprintf("region = %q", region)))
	if r := own.as(token, "job", "plan", file(own.Name+"-far", fmt.Sprintf("region = %q", region))); r.Code > 1 {
		w.t.Error(r)
	}
	body := fmt.Sprintf(`{"Job": {"ID": "%s-sent", "Region": %q, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}]}]}}`, own.Name, region)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPut, own.addr+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("X-Nomad-Token", token)
	if resp, err := http.DefaultClient.Do(r); err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatal(err, resp)
	} else if err := resp.Body.Close(); err != nil {
		w.t.Error(err)
	}
	for _, id := range []string{own.Name + "-far", own.Name + "-sent"} {
		holds(other, id, `"Region":"`+region+`"`)
		if r := own.as(token, "job", "status", id); r.Code == 0 {
			w.t.Errorf("%s is at %s as well: %v", id, own.Name, r)
		}
	}
	if r := own.as(token, "job", "run", "-detach", file("nowhere", `region = "moon"`)); r.Code == 0 || !strings.Contains(r.Err, `No path to region: "moon"`) {
		w.t.Errorf("a region that is not there: %v", r)
	}
}
