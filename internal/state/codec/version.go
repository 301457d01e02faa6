package codec

// A log version is the set of commands and fields that the log may use. Every
// log version includes the one before it. During a rolling upgrade servers have
// different builds, and one that does not know a command, or ignores a field
// that others read, would diverge. So each server reports the log version that
// it knows, and the leader appends nothing beyond what all of them know.
//
// What the log already holds was known to all servers once, and a server that
// does not know it refuses to start. So the check is made for the first command
// of a log version, and not again.

// LogVersion is the log version of this build. A new command, or a new field of
// a command or row, needs the next one; the state's test of log versions fails
// until it is there.
const LogVersion = 11

// SnapshotVersion is the newest version of saved snapshots that this build
// writes and reads. It reads older ones, and writes the oldest one that fits:
// see SnapshotOf.
const SnapshotVersion = 13

// The first versions of saved snapshots that have certain rows.
const (
	PoolsSince    = 2  // node pools
	ServicesSince = 3  // registrations of services
	StreamsSince  = 4  // stream jobs and what these own
	LineageSince  = 5  // pointers from a row to what came of it, or led to it
	SpacesSince   = 6  // namespaces beside the default one, and what belongs to log version 4
	SecretsSince  = 6  // root keys and variables
	LoginSince    = 7  // auth methods, binding rules, one-time tokens, and what belongs to log version 5
	InputsSince   = 8  // what belongs to log version 6
	RoomSince     = 9  // CSI volumes, claims and plugins, and what belongs to log version 7
	ClaimsSince   = 10 // what belongs to log version 8
	DevicesSince  = 11 // what belongs to log version 9
	ForceSince    = 12 // what belongs to log version 10
	StableSince   = 13 // what belongs to log version 11
)

// savedSince maps log versions to the oldest version of saved snapshots that
// can hold such a state. That one is written, so that an older server can read
// it.
var savedSince = [LogVersion + 1]int{1: ServicesSince, 2: StreamsSince, 3: LineageSince, 4: SpacesSince, 5: LoginSince, 6: InputsSince, 7: RoomSince, 8: ClaimsSince, 9: DevicesSince, 10: ForceSince, 11: StableSince}

// SnapshotOf returns the version in which a state with a log version is saved.
func SnapshotOf(logVersion int) int { return savedSince[logVersion] }

// LogVersionOf returns the highest log version that a saved snapshot of a
// version may need.
func LogVersionOf(snapshot int) int {
	for v := LogVersion; v > 1; v-- {
		if snapshot >= savedSince[v] {
			return v
		}
	}
	return 1
}
