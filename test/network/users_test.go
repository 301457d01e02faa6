package network

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/bed"
)

// With client.users, each isolated task that names no user has a number of its own,
// which it keeps when it is started again, by an agent that was killed meanwhile. It
// can use its directories, and those of others it cannot.
func TestTasksHaveUsersOfTheirOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for namespaces")
	}
	b := bed.ForTest(t)
	from := strings.Index(config, "  chroot_env {")
	text := config[:from] + config[from+strings.Index(config[from:], "}\n")+2:]
	text = strings.Replace(text, "client {", "client {\n  users {\n    dynamic_user_min = 920000\n    dynamic_user_max = 920009\n  }", 1)
	path, err := b.File("one.hcl", strings.NewReplacer("DIR", b.Dir, "CGROUP", b.CgroupParent()).Replace(text))
	must(t, err)
	a := b.Agent("one", "-config", path)
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	berth := func(args ...string) string {
		t.Helper()
		r, err := b.Run(t.Context(), b.Binary, b.Environ("BERTH_ADDR="+a.Banner("HTTP"), "NOMAD_ADDR="+a.Banner("HTTP")), args...)
		must(t, err)
		if r.Code != 0 {
			t.Fatalf("berth %s: %s", strings.Join(args, " "), r)
		}
		return r.Out
	}
	const script = `id -u; echo $HOME; echo hidden > $NOMAD_SECRETS_DIR/key && echo data > $NOMAD_TASK_DIR/x && echo shared > /alloc/data/$(id -u) && cat /local/x && exec sleep 1000`
	task := func(name string) string {
		return fmt.Sprintf("task %q {\n driver = \"exec\"\n config {\n command = \"/bin/sh\"\n args = [\"-c\", %q]\n }\n resources {\n cpu = 50\n memory = 32\n }\n }\n", name, script)
	}
	file, err := b.File("users.hcl", "job \"users\" {\n group \"g\" {\n restart { delay = \"0s\" }\n"+task("one")+task("two")+"}\n}\n")
	must(t, err)
	berth("job", "run", "-detach", file)
	var all []struct{ ID string }
	says := func(task, want string) {
		t.Helper()
		must(t, bed.Until(t.Context(), task+" says "+want, func() string {
			if err := json.Unmarshal([]byte(call(t, a, "/v1/job/users/allocations")), &all); err != nil || len(all) != 1 {
				return fmt.Sprint(err, all)
			}
			r, err := b.Run(t.Context(), b.Binary, b.Environ("NOMAD_ADDR="+a.Banner("HTTP")), "alloc", "logs", all[0].ID, task)
			if err != nil || r.Out != want {
				return fmt.Sprint(err, r)
			}
			return ""
		}))
	}
	// Which of the two came first is not known.
	first, err := waitFor(t, func() (string, bool) {
		if json.Unmarshal([]byte(call(t, a, "/v1/job/users/allocations")), &all) != nil || len(all) != 1 {
			return "", false
		}
		r, err := b.Run(t.Context(), b.Binary, b.Environ("NOMAD_ADDR="+a.Banner("HTTP")), "alloc", "logs", all[0].ID, "one")
		line, _, ok := strings.Cut(r.Out, "\n")
		return line, err == nil && ok
	})
	must(t, err)
	second := map[string]string{"920000": "920001", "920001": "920000"}[first]
	said := func(uid string) string { return uid + "\n/local\ndata\n" }
	says("one", said(first))
	says("two", said(second))
	dir := filepath.Join(b.Dir, "one", "alloc", all[0].ID)
	for name, uid := range map[string]string{"one": first, "two": second} {
		for _, at := range []string{name, name + "/local", name + "/secrets"} {
			info, err := os.Stat(filepath.Join(dir, at))
			must(t, err)
			if got := fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid); got != uid {
				t.Errorf("%s belongs to %s, want %s", at, got, uid)
			}
		}
	}
	a.Kill()
	must(t, a.Start())
	must(t, a.Await(t.Context()))
	berth("alloc", "restart", all[0].ID, "one")
	says("one", said(first)+said(first))
	if out := berth("alloc", "exec", "-task", "two", all[0].ID, "/usr/bin/id", "-u"); strings.TrimSpace(out) != second {
		t.Errorf("a command beside it runs as %q, want %s", out, second)
	}
	berth("job", "stop", "-purge", "-detach", "users")
	must(t, bed.Until(t.Context(), "the end of the tasks", func() string {
		if left := bed.Tasks(b.Processes())[all[0].ID]; len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	}))
	if _, err := a.End(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// waitFor waits until get has something, and returns it.
func waitFor(t *testing.T, get func() (string, bool)) (out string, err error) {
	t.Helper()
	err = bed.Until(t.Context(), "something is there", func() string {
		var ok bool
		if out, ok = get(); !ok {
			return "nothing yet"
		}
		return ""
	})
	return out, err
}
