package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// file returns the path of an example, as a user in the repository types it.
func (s *stage) file(name string) string { return filepath.Join(s.examples, name) }

// startAgent starts the agent and shows its node.
func (s *stage) startAgent() error {
	if err := s.start(); err != nil {
		return err
	}
	_, err := s.show("node", "status")
	return err
}

// runService runs the service and shows why it was placed and what it answers.
func (s *stage) runService() error {
	if _, err := s.show("job", "run", "-var", "program="+s.hello, s.file("web.nomad.hcl")); err != nil {
		return err
	}
	if _, err := s.show("job", "status", "web"); err != nil {
		return err
	}
	if err := s.showEval("web", "job-register"); err != nil {
		return err
	}
	if err := s.ask("Hello"); err != nil {
		return err
	}
	_, err := s.show("alloc", "logs", "-job", "web")
	return err
}

// showEval shows the path of the job's newest evaluation.
func (s *stage) showEval(job, trigger string) error {
	var evals []struct{ ID, TriggeredBy, Status string }
	if err := s.get("/v1/job/"+job+"/evaluations", &evals); err != nil {
		return err
	}
	if len(evals) == 0 || evals[0].TriggeredBy != trigger || evals[0].Status != "complete" {
		return fmt.Errorf("the newest evaluation of %s is not a complete one of %s: %+v", job, trigger, evals)
	}
	_, err := s.show("eval", "status", evals[0].ID[:8])
	return err
}

// ask calls every instance of the service and keeps the answers.
func (s *stage) ask(greeting string) error {
	addrs, err := s.addresses()
	if err != nil {
		return err
	}
	if len(addrs) != 3 {
		return fmt.Errorf("%d instances have an address, not 3", len(addrs))
	}
	// Later acts compare the answers with these.
	s.answers = map[string]string{}
	for _, addr := range addrs {
		var body string
		err := until(s.ctx, "the service answers", func() (bool, error) {
			var err error
			body, err = fetch(s.ctx, "http://"+addr+"/")
			return err == nil, nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "$ curl http://%s/\n%s", addr, body)
		if !strings.HasPrefix(body, greeting+" from web.front[") {
			return fmt.Errorf("%s answers %q", addr, body)
		}
		s.answers[addr] = body
	}
	fmt.Fprintln(s.out)
	return nil
}

// addresses returns the addresses of the service's running instances.
func (s *stage) addresses() (out []string, err error) {
	var stubs []struct{ ID, ClientStatus, DesiredStatus string }
	if err := s.get("/v1/job/web/allocations", &stubs); err != nil {
		return nil, err
	}
	for _, stub := range stubs {
		if stub.ClientStatus != "running" || stub.DesiredStatus != "run" { // those that were replaced may take a moment to end
			continue
		}
		// Only the ports are read.
		var alloc struct {
			AllocatedResources struct {
				Shared struct {
					Ports []struct {
						HostIP string
						Value  int
					}
				}
			}
		}
		if err := s.get("/v1/allocation/"+stub.ID, &alloc); err != nil {
			return nil, err
		}
		for _, p := range alloc.AllocatedResources.Shared.Ports {
			out = append(out, net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value)))
		}
	}
	slices.Sort(out)
	return out, nil
}

// runBatch runs a batch job and waits for its four allocations to complete.
func (s *stage) runBatch() error {
	if _, err := s.show("job", "run", s.file("primes.nomad.hcl")); err != nil {
		return err
	}
	var allocs []struct{ ID, Name, ClientStatus string }
	err := until(s.ctx, "the batch job is done", func() (bool, error) {
		if err := s.get("/v1/job/primes/allocations", &allocs); err != nil {
			return false, err
		}
		done := 0
		for _, a := range allocs {
			if a.ClientStatus == "complete" {
				done++
			}
		}
		return done == 4, nil
	})
	if err != nil {
		return err
	}
	if _, err := s.show("job", "status", "primes"); err != nil {
		return err
	}
	// Each allocation counted the primes of a quarter of the range.
	sum := 0
	for _, a := range allocs {
		out, err := s.show("alloc", "logs", a.ID[:8])
		if err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscanf(out, "%d primes", &n); err != nil {
			return fmt.Errorf("%s printed %q", a.Name, out)
		}
		sum += n
	}
	if fmt.Fprintf(s.out, "There are %d primes below 200000.\n", sum); sum != 17984 {
		return fmt.Errorf("there are 17984 primes below 200000, not %d", sum)
	}
	return nil
}

// updateService changes the greeting of the service and asks for it.
func (s *stage) updateService() error {
	if _, err := s.show("job", "run", "-var", "program="+s.hello, "-var", "greeting=Good evening", s.file("web.nomad.hcl")); err != nil {
		return err
	}
	if _, err := s.show("job", "status", "-all-allocs", "web"); err != nil {
		return err
	}
	return s.ask("Good evening")
}

// killAgent kills the agent and checks that its tasks go on.
func (s *stage) killAgent() error {
	fmt.Fprintf(s.out, "$ kill -9 %d\n", s.agent.PID())
	s.agent.Kill()
	return s.same()
}

// same asks the service again: the same processes must answer at the same
// addresses.
func (s *stage) same() error {
	for _, addr := range slices.Sorted(maps.Keys(s.answers)) {
		body, err := fetch(s.ctx, "http://"+addr+"/")
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "$ curl http://%s/\n%s", addr, body)
		if body != s.answers[addr] {
			return fmt.Errorf("%s answers %q, and before %q", addr, body, s.answers[addr])
		}
	}
	fmt.Fprintln(s.out)
	return nil
}

// restartAgent starts the agent again and checks that it took over the same
// tasks.
func (s *stage) restartAgent() error {
	if err := s.start(); err != nil {
		return err
	}
	if _, err := s.show("job", "status", "-all-allocs", "web"); err != nil {
		return err
	}
	addrs, err := s.addresses()
	if err != nil {
		return err
	}
	if !slices.Equal(addrs, slices.Sorted(maps.Keys(s.answers))) {
		return fmt.Errorf("instances run at %v, and before at %v", addrs, slices.Sorted(maps.Keys(s.answers)))
	}
	_, err = s.show("eval", "trace", "web")
	return errors.Join(err, s.same())
}

// tooBig asks for more than any machine has.
const tooBig = `job "big" {
  group "huge" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
      resources {
        memory = 100000000
      }
    }
  }
}
`

// runTooBig runs a job that fits no node and checks that the answer says what
// is missing.
func (s *stage) runTooBig() error {
	path := filepath.Join(s.Dir, "big.nomad.hcl")
	if err := os.WriteFile(path, []byte(tooBig), 0o600); err != nil {
		return err
	}
	out, err := s.showCode(2, "job", "run", path)
	if err == nil && !strings.Contains(out, "memory 100000000 MiB requested") {
		err = errors.New("it does not say what is missing")
	}
	if err != nil {
		return err
	}
	_, err = s.show("job", "explain", "big")
	return err
}

// stopAll stops all jobs, waits for their processes to end, and stops the
// agent.
func (s *stage) stopAll() error {
	for _, job := range []string{"web", "primes", "big"} {
		if _, err := s.show("job", "stop", "-purge", job); err != nil {
			return err
		}
	}
	if _, err := s.show("status"); err != nil {
		return err
	}
	if err := until(s.ctx, "every task has ended", func() (bool, error) { return len(s.tasks()) == 0, nil }); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "No process of a job is left.")
	return s.interruptAgent()
}
