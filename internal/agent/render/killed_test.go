package render

import (
	"strings"
	"syscall"
	"testing"

	"berth"
	"berth/internal/agent/isolate/isolatetest"
	"berth/internal/eventually"
)

// A renderer that is killed is no fault of the template: it can be tried again, while
// one that the kernel ends for its time cannot.
func TestTheRendererIsKilled(t *testing.T) {
	ended := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), isolatetest.Command(), &Request{Templates: []Template{{Text: `{{ range loop 1000000 }}{{ range loop 1000000 }}{{ end }}{{ end }}`}}})
		ended <- err
	}()
	var pids []int
	eventually.True(t, "it runs", func() bool { pids = isolatetest.Helpers(t, Word); return len(pids) == 1 })
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; berth.KindOf(err) != berth.Unavailable || !strings.Contains(err.Error(), "it was killed") {
		t.Errorf("killed, it says %v", err)
	}
	eventually.True(t, "no process is left", func() bool { return len(isolatetest.Helpers(t, Word)) == 0 })
	_, err := Run(t.Context(), isolatetest.Command(), &Request{Templates: []Template{{Text: `{{ range loop 1000000 }}{{ range loop 1000000 }}{{ end }}{{ end }}`}}})
	if berth.KindOf(err) != berth.Invalid || !strings.Contains(err.Error(), "for what it used") {
		t.Errorf("without end, it says %v", err)
	}
	if got := run(t, &Request{Templates: []Template{{Text: "x"}}}); string(got[0].Output) != "x" {
		t.Errorf("%+v", got)
	}
}
