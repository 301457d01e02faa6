package isolated

import (
	"fmt"
	"os"
	"testing"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/agent/supervise"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func sh(script string) map[string]any {
	return map[string]any{"command": "/bin/sh", "args": []any{"-c", script}}
}

// needs skips a test that does not run as root. As root, a driver that cannot start
// tasks fails it.
func needs(t *testing.T, d *Driver) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to isolate tasks")
	}
	if why := d.Fingerprint(t.Context()); !why.Healthy {
		t.Fatalf("the driver %s cannot start tasks here: %s", d.Name(), why.HealthDescription)
	}
}

func suite() drivertest.Driver {
	return drivertest.Driver{
		New:      func() driver.Driver { return Exec(Config{}) },
		Disabled: func() driver.Driver { return Exec(Config{Disabled: true}) },
		Runs:     sh("exec sleep 1000"), // without a handler, as the first process of its namespace
		Deaf:     sh("trap '' TERM; printf deaf; while :; do sleep 0.01; done"),
		DeafSays: "deaf",
		Shell:    sh,
		Program:  func(name string) map[string]any { return map[string]any{"command": name} },
		Limited:  true,
		Ends:     func(code int) map[string]any { return sh(fmt.Sprint("exit ", code)) },
		Prints: func(out, err string) map[string]any {
			return sh(fmt.Sprintf("printf '%s'; printf '%s' >&2", out, err))
		},
		Refused: []map[string]any{
			nil, {"command": ""}, {"command": 5}, {"command": "/bin/sh", "args": "x"}, {"command": "/bin/sh", "args": []any{1}},
			{"command": "/nowhere"}, {"command": "/etc/passwd"}, {"command": "/etc"}, {"command": "no-such-command"},
			{"command": "../../../bin/sh"}, {"command": "/bin/sh", "work_dir": "relative"}, {"command": "/bin/sh", "work_dir": "/nowhere"},
			{"command": "/bin/sh", "args": []any{"a\x00b"}}, {"command": "/bin/sh\x00"}, {"command": "/bin/sh", "pid_mode": "mine"},
			{"command": "/bin/sh", "cap_add": []any{"sys_admin"}}, {"command": "/bin/sh", "cap_add": []any{"no_such"}},
		},
		Supervisor: isolatetest.Command(),
	}
}

func TestContract(t *testing.T) {
	needs(t, Exec(Config{}))
	drivertest.Run(t, suite())
}
