package network

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"berth/test/bed"
)

// Secrets of tasks are in memory, whatever runs them: of the size that the job says,
// and closed to programs, devices and set-user-ID bits. They outlive an agent that
// is killed, and nothing of them outlives the allocation.
func TestSecretsOfTasksAreInMemory(t *testing.T) {
	const program = "berth/internal/agent/driver/docker/dockertest/task"
	d := startDocker(t, "", map[string]string{"task:1": program})
	build(t, filepath.Join(d.Dir, "app", "task"), program)
	task := func(name, driver, config, more string) string {
		return fmt.Sprintf(`
    task %q {
      driver = %q
      config {
        %s
        args = ["run"]
      }
      resources {
        cpu    = 100
        memory = 64
        %s
      }
    }`, name, driver, config, more)
	}
	file, err := d.File("secrets.hcl", `job "secrets" {
  group "g" {`+task("box", "docker", `image = "task:1"`, "")+
		task("kept", "exec", `command = "/app/task"`, "secrets = 3")+
		task("raw", "raw_exec", fmt.Sprintf("command = %q", filepath.Join(d.Dir, "app", "task")), "")+`
  }
}`)
	must(t, err)
	var all []struct {
		ID, ClientStatus string
		TaskStates       map[string]struct{ State string }
	}
	runs := func() string {
		t.Helper()
		must(t, bed.Until(t.Context(), "all tasks run", func() string {
			if err := json.Unmarshal([]byte(call(t, d.Agent, "/v1/job/secrets/allocations")), &all); err != nil || len(all) != 1 {
				return fmt.Sprint(err, all)
			}
			for _, s := range all[0].TaskStates {
				if s.State != "running" {
					return fmt.Sprint(all)
				}
			}
			if len(all[0].TaskStates) != 3 {
				return fmt.Sprint(all)
			}
			return ""
		}))
		return all[0].ID
	}
	d.berth(t, "job", "run", "-detach", file)
	id := runs()
	dir := filepath.Join(d.Dir, "one", "alloc", id)
	// Each task sees the same directory as the agent.
	pids := bed.Tasks(d.Processes())[id]
	list, err := d.engine.Client.ContainerList(t.Context(), client.ContainerListOptions{})
	must(t, err)
	for _, c := range list.Items {
		info, err := d.engine.Client.ContainerInspect(t.Context(), c.ID, client.ContainerInspectOptions{})
		must(t, err)
		pids = append(pids, info.Container.State.Pid)
	}
	own := 0
	for _, pid := range pids {
		if at := fmt.Sprintf("/proc/%d/root/secrets", pid); exists(at) {
			must(t, os.WriteFile(filepath.Join(at, "key"), []byte("secret"), 0o600))
			own++
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
		must(t, err)
		if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			return strings.Contains(line, "/secrets tmpfs ") && strings.Contains(line, "nosuid,nodev,noexec")
		}) {
			t.Errorf("process %d sees no secrets in memory:\n%s", pid, text)
		}
	}
	if own != 2 {
		t.Errorf("%d of %d processes have a tree with secrets, want two", own, len(pids))
	}
	must(t, os.WriteFile(filepath.Join(dir, "raw", "secrets", "key"), []byte("secret"), 0o600))
	d.Kill()
	must(t, d.Start())
	must(t, d.Await(t.Context()))
	if runs() != id {
		t.Error("the allocation was replaced")
	}
	for name, size := range map[string]int64{"box": 1, "kept": 3, "raw": 1} {
		at := filepath.Join(dir, name, "secrets")
		if text, err := os.ReadFile(filepath.Join(at, "key")); err != nil || string(text) != "secret" {
			t.Errorf("%s: %q %v", name, text, err)
		}
		var st unix.Statfs_t
		must(t, unix.Statfs(at, &st))
		if int64(st.Blocks)*st.Bsize != size<<20 {
			t.Errorf("%s has %d bytes for secrets, want %d MiB", name, int64(st.Blocks)*st.Bsize, size)
		}
	}
	if told := d.berth(t, "alloc", "status", id); !strings.Contains(told, "67 MiB") {
		t.Errorf("secrets that the job sizes do not count:\n%s", told)
	}
	if mounts := bed.Mounts(dir); len(mounts) != 3 {
		t.Errorf("mounts %v", mounts)
	}
	d.berth(t, "job", "stop", "-detach", "secrets")
	none := func(what string) {
		t.Helper()
		must(t, bed.Until(t.Context(), what, func() string {
			if left := bed.Mounts(filepath.Join(d.Dir, "one", "alloc")); len(left) > 0 {
				return fmt.Sprint(left)
			}
			return ""
		}))
	}
	none("the secrets of an allocation that has ended are gone")
	// The agent is killed while the tasks end.
	d.berth(t, "job", "run", "-detach", file)
	must(t, bed.Until(t.Context(), "a second allocation", func() string {
		if left := bed.Mounts(filepath.Join(d.Dir, "one", "alloc")); len(left) != 3 {
			return fmt.Sprint(left)
		}
		return ""
	}))
	d.berth(t, "job", "stop", "-purge", "-detach", "secrets")
	d.Kill()
	must(t, d.Start())
	must(t, d.Await(t.Context()))
	none("the next agent removes what the killed one left")
	if _, err := d.End(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// exists reports whether there is something at a path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
