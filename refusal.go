package berth

import (
	"slices"
	"strings"
)

// Codes of refusals: why something is refused, for programs. The text of such
// an error begins with the code and a colon, so it is known wherever errors
// travel as text.
const (
	CodeOwnerMissing    = "owner-missing"    // the owner is gone, or left it to itself
	CodeOwnerDeleting   = "owner-deleting"   // the owner is being deleted, was stopped or given up
	CodeStaleGeneration = "stale-generation" // of another generation than its owner
	CodeStaleLaunch     = "stale-launch"     // not of the present launch of its processing element
	CodeStaleEpoch      = "stale-epoch"      // decided in an earlier term of office
	CodeStaleVersion    = "stale-version"    // about another version of a file than the one there is
	CodeUIDMismatch     = "uid-mismatch"     // the name is another object's now
	CodeAlreadyDone     = "already-done"
	CodeNotEmpty        = "not-empty" // something it owns holds it; wait
	CodeNodeHeld        = "node-held" // an exclusive pool has the node, or would take it from others
	CodeDeleting        = "deleting"  // it can be asked for again when what is being deleted has gone
)

// Codes are all there are.
var Codes = []string{
	CodeOwnerMissing, CodeOwnerDeleting, CodeStaleGeneration, CodeStaleLaunch, CodeStaleEpoch, CodeStaleVersion, CodeUIDMismatch, CodeAlreadyDone,
	CodeNotEmpty, CodeNodeHeld, CodeDeleting,
}

// CodeOf returns the code of a refusal, "" if err is none that has one.
func CodeOf(err error) string {
	if KindOf(err) != Conflict {
		return ""
	}
	code, _, ok := strings.Cut(err.Error(), ": ")
	if !ok || !slices.Contains(Codes, code) {
		return ""
	}
	return code
}
