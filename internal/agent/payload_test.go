package agent

import (
	"os"
	"path/filepath"
	"testing"

	"berth"
)

// A task reads what its job was dispatched with, each time it starts, and finds
// the metadata in its environment.
func TestATaskReadsItsPayload(t *testing.T) {
	m := newMachine(t)
	m.agent()
	until(t, "the node is ready", m.isReady)
	al := newAlloc(t, "batch", shTask("main", `set -eu; cat "$NOMAD_TASK_DIR/in/film"; echo " $NOMAD_META_day $NOMAD_META_DAY"`, quick))
	al.Job.ParameterizedJob, al.Job.Dispatched = &berth.ParameterizedConfig{Payload: berth.PayloadOptional}, true
	al.Job.ID, al.Job.ParentID = "encode/dispatch-1", "encode"
	al.Job.Payload, al.Job.Meta = []byte("a train"), map[string]string{"day": "monday"}
	al.Job.TaskGroups[0].Tasks[0].DispatchPayload = &berth.DispatchPayload{File: "in/film"}
	id := m.place(al)
	m.untilStatus(id, "complete")
	b, err := os.ReadFile(filepath.Join(m.dir, "alloc", id, "alloc", "logs", "main.stdout.0"))
	if err != nil || string(b) != "a train monday monday\n" {
		t.Errorf("%q, %v", b, err)
	}

	// A path that leads elsewhere is refused, whatever servers let pass.
	bad := newAlloc(t, "batch", shTask("main", `true`, quick))
	bad.Job.Payload = []byte("root::0:0")
	bad.Job.TaskGroups[0].Tasks[0].DispatchPayload = &berth.DispatchPayload{File: "../../../passwd"}
	id = m.place(bad)
	m.untilStatus(id, "failed")
	if left, err := filepath.Glob(filepath.Join(m.dir, "*", "*", "passwd")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if told := m.told(id); told == "" {
		t.Error("nothing was told")
	}
}
