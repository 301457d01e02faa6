package cli

import (
	"context"
	"strings"
	"testing"
	"time"
)

// "var lock" that is interrupted ends its command, gives the lock back, and does not
// end as if the command had done its work.
func TestAnInterruptedLockDoesNotSucceed(t *testing.T) {
	c, err := startCluster(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	}()
	run := func(ctx context.Context, out *listener, args ...string) (code int, errs string) {
		var text strings.Builder
		p := &Program{Name: "berth", Args: append([]string{"var", "lock"}, args...), Env: []string{"BERTH_ADDR=" + c.http}, In: strings.NewReader(""), Out: out, Err: &text, Now: time.Now}
		return p.Run(ctx), text.String()
	}
	for _, s := range []struct {
		name, command string
		code          int
		says          string
	}{
		{"killed", "echo held; sleep 1000", 143, ""},
		{"ends by itself", "trap 'exit 3' TERM; echo held; sleep 1000 & wait", 3, ""},
		{"ends well", "trap 'exit 0' TERM; echo held; sleep 1000 & wait", 1, "Error: interrupted\n"},
	} {
		t.Run(s.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			out := &listener{text: "held", told: make(chan struct{})}
			go func() {
				<-out.told
				interrupt()
			}()
			code, errs := run(ctx, out, "locks/a", s.command)
			out.tell()
			if code != s.code || errs != s.says {
				t.Errorf("exit code %d, want %d; it says %q, want %q", code, s.code, errs, s.says)
			}
			if code, errs := run(t.Context(), out, "-early-return", "locks/a", "true"); code != 0 {
				t.Errorf("the lock is not free: %s", errs)
			}
		})
	}
}
