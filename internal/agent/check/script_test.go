package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"berth"
)

// shell runs commands for real, as an agent does beside a task.
func shell(ctx context.Context, command []string, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if x, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return x.ExitCode(), nil
	}
	return 0, err
}

func TestScriptsTellByTheirExitCode(t *testing.T) {
	for _, c := range []struct {
		script  string
		ignores bool // warnings
		want    string
	}{
		{"echo fine", false, "true false fine"},
		{"true", false, "true false nomad: the script exited with code 0"},
		{"echo hm >&2; exit 1", false, "false true hm"},
		{"exit 1", true, "true true nomad: the script exited with code 1"},
		{"exit 2", true, "false false nomad: the script exited with code 2"},
		{"yes | head -c 100000", false, "true false y"},
	} {
		s := Spec{Type: berth.CheckScript, Command: []string{"/bin/sh", "-c", c.script}, Timeout: time.Minute, PassWarnings: c.ignores}
		o := s.Look(t.Context(), shell)
		if got := fmt.Sprint(o.OK, " ", o.Warning, " ", o.Output); !strings.HasPrefix(got, c.want) || len(o.Output) > maxOutput {
			t.Errorf("%s: %.100s; want %s", c.script, got, c.want)
		}
	}
	slow := Spec{Type: berth.CheckScript, Command: []string{"/bin/sleep", "1000"}, Timeout: 50 * time.Millisecond}
	if o := slow.Look(t.Context(), shell); o.OK || o.Output != "nomad: the script took longer than its timeout of 50ms" {
		t.Errorf("a script that takes too long: %+v", o)
	}
	if o := slow.Look(t.Context(), nil); o.OK {
		t.Errorf("a script without a task: %+v", o)
	}
}

// What only warns restarts a task unless its check_restart says otherwise.
func TestWarningsRestartUnlessIgnored(t *testing.T) {
	for _, ignores := range []bool{false, true} {
		s := &Spec{RestartLimit: 2, RestartIgnoresWarnings: ignores}
		now := time.Unix(1000, 0)
		st := State{Status: Pending, Since: now, Begun: now}
		restarts := 0
		for range 4 {
			var restart bool
			if st, restart = st.Next(s, Outcome{Warning: true}, now); restart {
				restarts++
			}
		}
		if want := map[bool]int{false: 2, true: 0}[ignores]; restarts != want || st.Status != Failure {
			t.Errorf("ignore_warnings = %v: %d restarts, %s; want %d", ignores, restarts, st.Status, want)
		}
	}
}
