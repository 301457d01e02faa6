package raw

import (
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/driver/process"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/supervise"
	"berth/internal/eventually"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	signal.Ignore(syscall.SIGHUP) // as under nohup: tasks get it all the same
	os.Exit(m.Run())
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

func suite() drivertest.Driver {
	return drivertest.Driver{
		New:      func() driver.Driver { return New(Config{Enabled: true}) },
		Disabled: func() driver.Driver { return New(Config{}) },
		Runs:     sh("exec sleep 1000"),
		Deaf:     sh("trap '' TERM; printf deaf; while :; do sleep 0.01; done"),
		DeafSays: "deaf",
		Shell:    sh,
		Program:  func(name string) map[string]any { return map[string]any{"command": name} },
		Ends:     func(code int) map[string]any { return sh(fmt.Sprint("exit ", code)) },
		Prints: func(out, err string) map[string]any {
			return sh(fmt.Sprintf("printf '%s'; printf '%s' >&2", out, err))
		},
		Refused: []map[string]any{
			nil, {"command": ""}, {"command": 5}, {"command": "/bin/sh", "args": "x"}, {"command": "/bin/sh", "args": []any{1}},
			{"command": "/nowhere"}, {"command": "/etc/passwd"}, {"command": "/etc"}, {"command": "no-such-command"},
			{"command": "../../bin/sh"}, {"command": "/bin/sh", "work_dir": "relative"}, {"command": "/bin/sh", "work_dir": "/nowhere"},
			{"command": "/bin/sh", "args": []any{"a\x00b"}}, {"command": "/bin/sh\x00"},
		},
		Supervisor: isolatetest.Command(),
	}
}

func TestContract(t *testing.T) { drivertest.Run(t, suite()) }

func TestCommandsAreLookedForInTheTaskThenInItsPath(t *testing.T) {
	d := suite()
	task := d.Alloc(t)(1, nil)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(task.Dir, "local", "mine"), nil, 0o755))
	must(os.WriteFile(filepath.Join(task.Dir, "local", "sh"), nil, 0o644)) // not executable
	must(os.WriteFile(filepath.Join(task.Dir, "top"), nil, 0o755))
	must(os.Symlink("/bin/sh", filepath.Join(task.Dir, "local", "mylink")))
	for command, want := range map[string]string{
		"mine": task.Dir + "/local/mine", "local/mine": task.Dir + "/local/mine", "./top": task.Dir + "/top",
		"sh": "/usr/bin/sh", "/bin/sh": "/bin/sh",
	} {
		if got, err := lookup(task, command); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", command, got, err, want)
		}
	}
	for _, command := range []string{"mylink", "local/mylink", "..", "../task/top", "local", "nothing"} {
		if got, err := lookup(task, command); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%s: %s, %v", command, got, err)
		}
	}
}

func TestTasksRunAsTheUserTheyAskFor(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := process.User("root"); berth.KindOf(err) != berth.Denied {
			t.Errorf("an agent without rights: %v", err)
		}
		return
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	d := suite()
	task := d.Alloc(t)(1, sh("test $(id -u) = "+nobody.Uid))
	task.User = "nobody"
	task.Config["work_dir"] = "/"
	h, err := New(Config{Enabled: true}).Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := h.Wait(t.Context()); err != nil || !e.Success() {
		t.Errorf("%+v, %v", e, err)
	}
	for name, want := range map[string]berth.Kind{"no-such-user": berth.Invalid, "4294967295": berth.Invalid, "": ""} {
		if _, err := process.User(name); berth.KindOf(err) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestUsageCountsAllProcessesOfATask(t *testing.T) {
	d := suite()
	h, err := New(Config{Enabled: true}).Start(t.Context(), d.Alloc(t)(1, sh("sleep 1000 & sleep 1000 & wait")))
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "its three processes are counted", func() bool {
		u, err := h.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return u.Processes == 3 && u.Memory > 0
	})
}

func TestAdvisory_C42_DisabledIsAskedAtEachStart(t *testing.T) {
	d := suite()
	task := d.Alloc(t)
	drv := New(Config{Enabled: true})
	h, err := drv.Start(t.Context(), task(1, sh("exit 0")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	drv.enabled.Store(false)
	if _, err := drv.Start(t.Context(), task(2, sh("exit 0"))); err == nil || !strings.Contains(err.Error(), "not enabled") {
		t.Errorf("%v", err)
	}
}
