package mock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/logs"
	"berth/internal/agent/supervise"
	_ "berth/internal/onethread"
	"berth/op"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervise.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func suite() drivertest.Driver {
	return drivertest.Driver{
		New:      func() driver.Driver { return New(true) },
		Disabled: func() driver.Driver { return New(false) },
		Runs:     map[string]any{"run_for": "10m"},
		Deaf:     map[string]any{"run_for": "10m", "kill_after": "5m"},
		Ends:     func(code int) map[string]any { return map[string]any{"exit_code": int64(code), "run_for": "1ms"} },
		Prints: func(out, err string) map[string]any {
			return map[string]any{"stdout_string": out, "stderr_string": err}
		},
		Refused: []map[string]any{
			{"run_for": "soon"}, {"exit_code": 256}, {"exit_code": "x"}, {"start_error": "no luck"}, {"stdout_string": 1},
			{"start_error_recoverable": "perhaps"}, {"run_for": -1}, {"exit_signal": 1.5},
		},
	}
}

func TestContract(t *testing.T) { drivertest.Run(t, suite()) }

// play runs a task in virtual time and tells what happened when.
func play(t *testing.T, config map[string]any, during func(h driver.Handle)) (exit *driver.Exit, lasted time.Duration, out string) {
	t.Helper()
	d := suite()
	task := d.Alloc(t)(1, config)
	synctest.Test(t, func(t *testing.T) {
		h, err := New(true).Start(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		if during != nil {
			go during(h)
		}
		if exit, err = h.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		lasted = time.Since(from)
	})
	return exit, lasted, stdout(t, task)
}

func stdout(t *testing.T, task *driver.Task) string {
	t.Helper()
	dir, err := task.AllocDir.Sub(logs.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var b strings.Builder
	err = logs.Stream(t.Context(), dir, logs.Request{Task: task.Name}, func(f *op.StreamFrame) error {
		b.Write(f.Data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestATaskDoesWhatItsConfigSays(t *testing.T) {
	stopAt := func(at, timeout time.Duration) func(driver.Handle) {
		return func(h driver.Handle) {
			time.Sleep(at)
			_ = h.Stop(context.Background(), syscall.SIGTERM, timeout)
		}
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		during func(driver.Handle)
		exit   string
		lasted time.Duration
		out    string
	}{
		{"ends at once", nil, nil, "0 0 ", 0, ""},
		{"ends in time", map[string]any{"run_for": "90s", "exit_code": 3}, nil, "3 0 ", 90 * time.Second, ""},
		{"dies of a signal", map[string]any{"run_for": int64(time.Second), "exit_signal": "11"}, nil, "139 11 ", time.Second, ""},
		{"cannot be waited for", map[string]any{"exit_err_msg": "lost touch"}, nil, "0 0 lost touch", 0, ""},
		{"prints", map[string]any{"run_for": "10s", "stdout_string": "x", "stdout_repeat": 3, "stdout_repeat_duration": "2s"}, nil, "0 0 ", 10 * time.Second, "xxxx"},
		{"prints while it runs", map[string]any{"run_for": "5s", "stdout_string": "x", "stdout_repeat": 100, "stdout_repeat_duration": "2s"}, nil, "0 0 ", 5 * time.Second, "xxx"},
		{"is stopped", map[string]any{"run_for": "1h"}, stopAt(time.Minute, time.Second), "0 0 ", time.Minute, ""},
		{"takes time to stop", map[string]any{"run_for": "1h", "kill_after": "3s"}, stopAt(time.Minute, 5*time.Second), "0 0 ", 63 * time.Second, ""},
		{"is killed", map[string]any{"run_for": "1h", "kill_after": "9s"}, stopAt(time.Minute, 5*time.Second), "137 9 ", 65 * time.Second, ""},
		{"ends before it is killed", map[string]any{"run_for": "62s", "kill_after": "9s", "exit_code": 4}, stopAt(time.Minute, 5*time.Second), "4 0 ", 62 * time.Second, ""},
	} {
		exit, lasted, out := play(t, c.config, c.during)
		if got := fmt.Sprintf("%d %d %s", exit.Code, exit.Signal, exit.Err); got != c.exit || lasted != c.lasted || out != c.out {
			t.Errorf("%s: exit %q after %v, printed %q; want %q after %v, %q", c.name, got, lasted, out, c.exit, c.lasted, c.out)
		}
	}
}

func TestStartBlocksAndFails(t *testing.T) {
	d := suite()
	task := d.Alloc(t)
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		_, err := New(true).Start(t.Context(), task(1, map[string]any{"start_block_for": "10s", "start_error": "later", "start_error_recoverable": true}))
		if err == nil || !driver.IsRecoverable(err) || time.Since(from) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(from))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := New(true).Start(ctx, task(2, map[string]any{"start_block_for": "10s"})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
		h, err := New(true).Start(t.Context(), task(3, map[string]any{"signal_error": "cannot"}))
		if err != nil || h.Signal(t.Context(), syscall.SIGHUP) == nil {
			t.Errorf("signal: %v", err)
		}
	})
}

// What should have happened while no agent looked has happened; what was due
// is not printed twice.
func TestATaskGoesOnWithoutItsAgent(t *testing.T) {
	d := suite()
	newTask := d.Alloc(t)
	task := newTask(1, map[string]any{"run_for": "10s", "exit_code": 5, "stdout_string": "x", "stdout_repeat": 100, "stdout_repeat_duration": "1s"})
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		h, err := New(true).Start(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		if _, err := h.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the agent is away
		again, err := New(true).Recover(t.Context(), task, h.State())
		if err != nil {
			t.Fatal(err)
		}
		e, err := again.Wait(t.Context())
		if err != nil || e.Code != 5 || !e.At.Equal(from.Add(10*time.Second)) {
			t.Errorf("%+v, %v", e, err)
		}
		time.Sleep(time.Hour)
		late, err := New(true).Recover(t.Context(), task, h.State())
		if err != nil {
			t.Fatal(err)
		}
		if e, err := late.Wait(t.Context()); err != nil || !e.At.Equal(from.Add(10*time.Second)) {
			t.Errorf("%+v, %v", e, err)
		}
	})
	if got := stdout(t, task); got != "xxxx"+"xxxxx" { // at 0 to 3 s, then at 6 to 10 s
		t.Errorf("printed %q", got)
	}
}
