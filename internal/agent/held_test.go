package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/op"
)

// An allocation had ended before the agent lost its records. Whatever servers change
// of it later, no agent runs it again.
func TestWhatHadEndedIsNotRunAgain(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		_, end := w.agent(t)
		pause(time.Second)
		al := newAlloc(t, "batch", mockTask("main", ``))
		al.ClientStatus = berth.ClientComplete
		id := w.place(al)
		pause(5 * time.Second)
		w.want(id, func(*op.Alloc) {})
		pause(5 * time.Second)
		end()
		_, end = w.agent(t)
		pause(time.Minute)
		if got := w.story(id); got != "" {
			t.Errorf("reported: %s: %s", got, w.events(id, "main"))
		}
		end()
	})
}
