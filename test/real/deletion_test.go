package real

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"berth/test/bed"
)

// A job that is deleted in the foreground is there until its task, which takes
// its time, has ended, though the agent is killed and started again meanwhile.
// What is left to itself runs on over such a start.
func TestADeletionTakesItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("slow.nomad", group("service", "slow", `update { max_parallel = 0 }`,
		sh(`trap 'echo asked; until [ -e `+filepath.Join(w.Dir, "may")+` ]; do sleep 0.1; done; echo done; exit 0' TERM INT; echo up; while :; do sleep 0.1; done`,
			`kill_timeout = "60s"`))))
	a.good("job", "run", "-detach", w.file("left.nomad", group("service", "left", `update { max_parallel = 0 }`, sh("exec sleep 1000"))))
	w.until("both are placed", func() string {
		if n := len(a.allocs("slow")) + len(a.allocs("left")); n != 2 {
			return fmt.Sprint(n, " allocations")
		}
		return ""
	})
	id := a.allocs("slow")[0].ID
	left := map[string][]int{}
	w.until("what is left runs", func() string {
		other := a.allocs("left")[0].ID
		if left[other] = w.tasks()[other]; len(left[other]) != 1 {
			return fmt.Sprint(left)
		}
		return ""
	})
	w.until("it is up", func() string { return missing(a.berth("alloc", "logs", id, "main").Out, "up\n") })

	a.good("job", "stop", "-purge", "-propagation=foreground", "-detach", "slow")
	a.good("job", "stop", "-purge", "-propagation=orphan", "left")
	w.until("its task was asked to stop", func() string { return missing(a.berth("alloc", "logs", id, "main").Out, "asked\n") })
	a.again()
	w.holds(a.good("job", "tree", "slow"), "being deleted (foreground, by user)", id[:8], "blocks deletion")
	// The command must watch before the task may end.
	watch, err := w.Command(t.Context(), w.Binary, []string{"BERTH_ADDR=" + a.addr}, "job", "stop", "-purge", "-propagation=foreground", "slow")
	if err != nil {
		t.Fatal(err)
	}
	w.until("the deletion is watched", func() string { return missing(watch.Out(), "waiting for 1 allocation to end") })
	w.file("may", "")
	watched, err := watch.Wait()
	if err != nil {
		t.Fatal(err)
	}
	w.holds(watched.String(), "exit code 0", `Job "slow" is gone`)
	w.holds(a.berth("job", "tree", "slow").String(), "exit code 1", `No job with ID or prefix "slow"`)
	w.holds(a.berth("alloc", "logs", id, "main").Out, "done\n")
	if pids := w.tasks()[id]; len(pids) > 0 {
		t.Errorf("the job has gone, and %v run", pids)
	}

	w.holds(a.good("job", "tree", "left"), "Orphaned")
	for id, pids := range left {
		if now := w.tasks()[id]; fmt.Sprint(now) != fmt.Sprint(pids) {
			t.Errorf("left to itself ran %v, and now %v", pids, now)
		}
		w.holds(a.good("alloc", "stop", id), "nothing replaces it")
		w.until("it has ended", func() string {
			if now := w.tasks()[id]; len(now) > 0 {
				return fmt.Sprint(now)
			}
			return ""
		})
	}
	w.until("nothing is left", func() string {
		if s := a.berth("job", "tree", "left"); s.Code == 0 {
			return bed.Got(s.Out)
		}
		return ""
	})
}

// A job whose node is silent is deleted by force before the node is down. Its
// task runs on until its agent is heard again, and is ended then.
func TestADeletionIsForced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.agent("server", `server {
		enabled          = true
		bootstrap_expect = 1
		heartbeat_grace  = "10m" # the node is not down before the end
	}`)
	s.joined()
	n := w.agent("node", fmt.Sprintf(`client {
		enabled = true
		servers = [%q]
	}`, s.rpc))
	n.joined()
	s.good("job", "run", "-detach", w.file("web.nomad", group("service", "web", `update { max_parallel = 0 }`, sh("exec sleep 1000"))))
	w.until("it is placed", func() string {
		if n := len(s.allocs("web")); n != 1 {
			return fmt.Sprint(n, " allocations")
		}
		return ""
	})
	id := s.allocs("web")[0].ID
	w.until("its task runs", func() string {
		if pids := w.tasks()[id]; len(pids) != 1 {
			return fmt.Sprint(pids)
		}
		return ""
	})
	if err := n.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Signal(syscall.SIGCONT) })
	s.good("job", "stop", "-purge", "-propagation=foreground", "-detach", "web")
	w.holds(s.good("job", "tree", "web"), "being deleted (foreground, by user)", id[:8], "blocks deletion")
	w.holds(s.good("job", "stop", "-purge", "-propagation=foreground", "-force", "web"), `Job "web" is gone`)
	w.holds(s.good("alloc", "status", id), "= lost", "its job was deleted by force")
	w.holds(s.good("node", "status"), "ready")
	if pids := w.tasks()[id]; len(pids) != 1 {
		t.Errorf("its agent is stopped, and it runs %v", pids)
	}
	if err := n.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.until("its task has ended", func() string {
		if pids := w.tasks()[id]; len(pids) > 0 {
			return fmt.Sprint(pids)
		}
		return ""
	})
	w.holds(s.good("alloc", "status", id), "= lost")
}
