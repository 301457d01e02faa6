package codec

import (
	"math"

	"berth"
)

// storedTexts are the reasons of stops as logs and snapshots have them: it must
// not change when what people read does.
var storedTexts = [...]string{
	berth.StopSurplus:   "the job wants fewer instances of the group",
	berth.StopReplaced:  "replaced: its tasks changed with the job",
	berth.StopNodeLost:  "its node is down",
	berth.StopFailed:    "replaced: it failed",
	berth.StopGroupGone: "the job no longer has the group",
	berth.StopJobEnded:  "the job was stopped",
	berth.StopOldJob:    "it belongs to an earlier job of the same name",
	berth.StopUnfit:     "replaced: its node no longer meets the job's conditions",
	berth.StopNotMet:    "its node no longer meets the job's conditions",
	berth.StopMigrated:  "migrated: its node is drained",
	berth.StopAway:      "its node was not heard for too long",
	berth.StopRejoined:  "another one of its name was kept when its client reconnected",
	berth.StopCanary:    "a canary of a deployment that did not promote it",
	berth.StopDone:      "the batch instance of its name has finished",
	berth.UnknownAway:   "its node is disconnected",
	berth.StopWanted:    "a user stopped it, to be placed anew",
	berth.StopOrphan:    "a user stopped it; it has no job that would replace it",
	berth.StopForced:    "its job was deleted by force, and its end not waited for",
	berth.StopPEGone:    "its processing element is gone",
	berth.StopPELaunch:  "its processing element was launched anew",
}

// byText finds the reasons by their stored texts, and by those of today.
var byText = func() map[string]berth.StopReason {
	m := make(map[string]berth.StopReason, 2*len(storedTexts))
	for r := range berth.StopReasons {
		m[r.String()] = r
	}
	for r, text := range storedTexts {
		m[text] = berth.StopReason(r)
	}
	return m
}()

// StopReason returns the reason that a stored text stands for: StopOther if it is
// none of ours.
func StopReason(text string) berth.StopReason {
	if r, ok := byText[text]; ok {
		return r
	}
	return berth.StopOther
}

// lastNumbered is the last reason that the log writes as its number. It writes
// those after it as math.MaxUint8 and their text, as servers of older builds do.
const lastNumbered = berth.UnknownAway

// stopReason writes why an allocation was stopped.
func (w *Writer) stopReason(s *berth.AllocStop) {
	switch {
	case s.StopReason <= lastNumbered:
		w.Byte(byte(s.StopReason))
		return
	case s.StopReason < berth.StopReasons:
		w.Byte(math.MaxUint8)
		w.Text(storedTexts[s.StopReason])
	default:
		w.Byte(math.MaxUint8)
		w.Text(s.Text)
	}
}

// stopReason reads why an allocation was stopped.
func (r *Reader) stopReason(s *berth.AllocStop) {
	switch i := r.Byte(); {
	case i == math.MaxUint8:
		text := r.Text()
		if s.StopReason = StopReason(text); s.StopReason == berth.StopOther {
			s.Text = text
		}
	case i <= byte(lastNumbered):
		s.StopReason = berth.StopReason(i)
	default:
		r.Damaged("description")
	}
}
