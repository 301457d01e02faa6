package codec

// A log version is what there is to say in the log: the numbers of commands, and
// the fields of each. Every log version has all of the one before it. While
// servers are upgraded one after another they are of several builds, and what
// one of them does not know, or reads without a field that the others see,
// would part its state from theirs. So each says which log version it knows,
// and the leader's log takes nothing beyond what all of them do.
//
// What the log holds already was known to all once, and a server that does not
// know it refuses to start: so this is asked for the first command of a log
// version, and not again.

// LogVersion is the log version that this build knows. A new number of a
// command, or a new field of one or of a row, needs the next; the state's test
// of log versions fails until it is there.
const LogVersion = 2

// SnapshotVersion is the newest version of saved snapshots that this build
// writes and reads. It reads older ones, and writes the oldest that can say what
// there is: see SnapshotOf.
const SnapshotVersion = 4

// Versions of saved snapshots since which they have certain rows.
const (
	PoolsSince    = 2 // node pools
	ServicesSince = 3 // registrations of services
	StreamsSince  = 4 // stream jobs and what these own
)

// savedSince are, by log version, the versions of saved snapshots that hold a
// state which needs it. The oldest that does is written, so that a server that
// knows no more can read it.
var savedSince = [LogVersion + 1]int{1: ServicesSince, 2: StreamsSince}

// SnapshotOf returns the version in which a state is saved that needs a log
// version.
func SnapshotOf(logVersion int) int { return savedSince[logVersion] }

// LogVersionOf returns the log version that a saved snapshot of a version may
// need.
func LogVersionOf(snapshot int) int {
	for v := LogVersion; v > 1; v-- {
		if snapshot >= savedSince[v] {
			return v
		}
	}
	return 1
}
