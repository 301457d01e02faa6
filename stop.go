package berth

import "math"

// StopReason is why an allocation stops. Servers decide on it; its text is for
// people alone. The log holds the numbers: never change one.
type StopReason uint8

// The reasons.
const (
	StopNone StopReason = iota
	StopSurplus
	StopReplaced
	StopNodeLost
	StopFailed
	StopGroupGone
	StopJobEnded
	StopOldJob
	StopUnfit
	StopNotMet
	StopMigrated
	StopAway
	StopRejoined
	StopCanary
	StopDone
	UnknownAway // it does not stop: its node is disconnected and its state unknown
	StopWanted
	StopOrphan
	StopForced
	StopPEGone
	StopPELaunch
)

// StopOther is a reason that is given only as text.
const StopOther StopReason = math.MaxUint8

// stopTexts are the reasons as people read them, by their value. They are
// stored, so a text must not change.
var stopTexts = [...]string{
	StopSurplus:   "the job wants fewer instances of the group",
	StopReplaced:  "replaced: its tasks changed with the job",
	StopNodeLost:  "its node is down",
	StopFailed:    "replaced: it failed",
	StopGroupGone: "the job no longer has the group",
	StopJobEnded:  "the job was stopped",
	StopOldJob:    "it belongs to an earlier job of the same name",
	StopUnfit:     "replaced: its node no longer meets the job's conditions",
	StopNotMet:    "its node no longer meets the job's conditions",
	StopMigrated:  "migrated: its node is drained",
	StopAway:      "its node was not heard for too long",
	StopRejoined:  "another one of its name was kept when its client reconnected",
	StopCanary:    "a canary of a deployment that did not promote it",
	StopDone:      "the batch instance of its name has finished",
	UnknownAway:   "its node is disconnected",
	StopWanted:    "a user stopped it, to be replaced",
	StopOrphan:    "a user stopped it; it has no job that would replace it",
	StopForced:    "its job was deleted by force, and its end not waited for",
	StopPEGone:    "its processing element is gone",
	StopPELaunch:  "its processing element was launched again",
}

// StopReasons is how many reasons have a text, with StopNone.
const StopReasons = StopReason(len(stopTexts))

// String returns what people read.
func (r StopReason) String() string {
	if r < StopReasons {
		return stopTexts[r]
	}
	return "another reason"
}
