package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/local"
	"berth/op"
)

// smallDisk gives the machine a disk of its own of 16 MiB, for all that its agent
// writes. It needs root.
func (m *machine) smallDisk() {
	m.t.Helper()
	if err := unix.Mount("tmpfs", m.dir, "tmpfs", 0, "size=16m,mode=0711"); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		m.endAll()
		if err := unix.Unmount(m.dir, unix.MNT_DETACH); err != nil {
			m.t.Error(err)
		}
	})
}

// free is how many blocks of the machine's disk are free.
func (m *machine) free() uint64 {
	m.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(m.dir, &st); err != nil {
		m.t.Fatal(err)
	}
	return st.Bfree
}

// recorded returns what the agent has recorded of an allocation.
func (m *machine) recorded(id string) (out local.Inspected) {
	m.t.Helper()
	all, err := local.Inspect(filepath.Join(m.dir, "client"))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, a := range all.Allocs {
		if a.ID.String() == id {
			return a
		}
	}
	return out
}

// padding makes the record of an allocation so large that a disk which looks full
// has no room for it.
var padding = fmt.Sprintf(`,"Meta":{"padding":%q}`, strings.Repeat("x", 20_000))

// filler notes its process and fills the disk when fillDisk says so.
const filler = `echo $$ >> "$NOMAD_TASK_DIR/pids"; until [ -e "$NOMAD_ALLOC_DIR/data/fill" ]; do sleep 0.02; done; ` +
	`cat /dev/zero > "$NOMAD_ALLOC_DIR/data/zeros"; exec sleep 1000`

// fillDisk has a filler that runs fill the disk, and returns when it is full. A
// filler that did so at once could keep its own start from being recorded.
func (m *machine) fillDisk(id string) {
	m.t.Helper()
	m.untilStatus(id, "running")
	if err := os.WriteFile(filepath.Join(m.dir, "alloc", id, "alloc/data/fill"), nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	until(m.t, "the disk is full", func() bool { return m.free() == 0 })
}

// An allocation that has filled the disk ends when servers say so, and one that
// they forgot is removed. The record follows when there is room.
func TestWhatFilledTheDiskIsStopped(t *testing.T) {
	m := newMachine(t)
	m.smallDisk()
	a := m.agent()
	until(t, "the node is ready", m.isReady)
	other := m.place(newAlloc(t, "service", shTask("main", sleeper), padding))
	id := m.place(newAlloc(t, "service", shTask("main", filler), padding))
	m.untilStatus(other, "running")
	until(t, "the other has noted its process", func() bool { return len(m.pids(other, "main")) == 1 })
	m.fillDisk(id)
	pids := append(m.pids(id, "main"), m.pids(other, "main")...)
	m.stop(id)
	m.untilStatus(id, "complete")
	m.forget(other)
	until(t, "the other has ended", func() bool { return !alive(m.pidOr(other)) })
	if alive(pids[0]) || alive(pids[1]) {
		t.Errorf("of the processes %v some live", pids)
	}
	if err := os.Remove(filepath.Join(m.dir, "alloc", id, "alloc/data/zeros")); err != nil {
		t.Fatal(err)
	}
	until(t, "the order to end is recorded", func() bool { return m.recorded(id).DesiredStatus == berth.DesiredStop.String() })
	until(t, "the end is recorded", func() bool { return strings.Contains(string(m.recorded(id).Tasks["main"]), `"State":"dead"`) })
	a.kill()
	m.agent()
	until(t, "another agent is there", func() bool { return m.registrations() == 2 && m.isReady() })
	if s := m.story(id); !strings.HasSuffix(s, "running complete") || len(m.pids(id, "main")) != 1 {
		t.Errorf("%s, processes %v", s, m.pids(id, "main"))
	}
}

// The disk that an allocation has filled is free again when its directory is
// collected, and when servers forget it, though there was no room to record its
// end.
func TestWhatFilledTheDiskIsRemoved(t *testing.T) {
	for how, remove := range map[string]func(m *machine, id string){
		"collected": func(m *machine, id string) {
			m.mu.Lock()
			peer := m.peer
			m.mu.Unlock()
			until(m.t, "it has ended", func() bool {
				return peer.Call(m.t.Context(), op.AgentCollectAlloc.RPC, &op.AllocTarget{AllocID: id}, &op.Nothing{}) == nil
			})
		},
		"forgotten": func(m *machine, id string) { m.forget(id) },
	} {
		t.Run(how, func(t *testing.T) {
			m := newMachine(t)
			m.smallDisk()
			m.agent()
			until(t, "the node is ready", m.isReady)
			id := m.place(newAlloc(t, "service", shTask("main", filler), padding))
			m.fillDisk(id)
			m.stop(id)
			m.untilStatus(id, "complete")
			remove(m, id)
			until(t, "the directory is gone", func() bool {
				_, err := os.Stat(filepath.Join(m.dir, "alloc", id))
				return errors.Is(err, fs.ErrNotExist)
			})
			if n := m.free(); n == 0 {
				t.Error("the disk is full")
			}
			// What needs the disk runs again, and the agent is done with the other.
			next := m.place(newAlloc(t, "batch", shTask("main", "true")))
			m.untilStatus(next, "complete")
			if how == "forgotten" {
				until(t, "the record is gone", func() bool { return m.recorded(id).ID.IsZero() })
			}
		})
	}
}

// An allocation that cannot be recorded is named in the log and not run. It keeps
// no other of the same answer from being stopped or removed.
func TestOneRecordThatFailsKeepsNoOtherFromItsEnd(t *testing.T) {
	w := newWorld(t)
	var told strings.Builder
	w.cfg = func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&told, nil)) }
	task := mockTask("main", `"run_for":"100h"`)
	fresh := newAlloc(t, "service", task) // of the three IDs the lowest, so it is taken up first
	synctest.Test(t, func(t *testing.T) {
		a, end := w.agent(t)
		pause(time.Second)
		stopped, removed := w.place(newAlloc(t, "service", task)), w.place(newAlloc(t, "service", task))
		pause(10 * time.Second)
		inTheWay := filepath.Join(w.dir, "client/allocs", fresh.ID.String())
		if err := os.Mkdir(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		w.step(func() {
			fresh.NodeID, fresh.CreateIndex, fresh.ModifyIndex, fresh.AllocModifyIndex = a.NodeID(), w.index, w.index, w.index
			b := *w.allocs[stopped]
			b.DesiredStatus, b.ModifyIndex, b.AllocModifyIndex = berth.DesiredStop, w.index, w.index
			w.allocs[fresh.ID.String()], w.allocs[stopped] = fresh, &b
			delete(w.allocs, removed)
		})
		pause(time.Minute)
		if got := w.status(stopped); got != "complete" {
			t.Errorf("what is to be stopped is %s", got)
		}
		if v := a.View(); len(v.Allocs) != 1 || v.Allocs[0].ID != stopped {
			t.Errorf("the agent has %+v", v.Allocs)
		}
		if got := w.status(fresh.ID.String()); got == "running" {
			t.Errorf("it is %s without a record", got)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		pause(time.Minute)
		if got := w.status(fresh.ID.String()); got != "running" {
			t.Errorf("when it can be recorded it is %s", got)
		}
		end()
	})
	if text := told.String(); !strings.Contains(text, "cannot be recorded") || !strings.Contains(text, "alloc="+fresh.ID.String()) || !strings.Contains(text, "is a directory") {
		t.Errorf("the log does not name the allocation and the error:\n%s", text)
	}
}
