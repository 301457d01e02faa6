package op

import (
	"berth"
	"berth/internal/acl"
)

// SystemGC asks for all to be deleted that nothing needs any more, however
// young.
type SystemGC struct{ Write }

// SystemGCRaised answers SystemGC.
type SystemGCRaised struct {
	// EvalID is the core evaluation that collects. Its status description
	// lists what was deleted.
	EvalID berth.EvalID
}

// DeleteEvals asks for evaluations to be deleted: those named, or those of the
// request's namespace that meet an expression, not both. Nomad deletes any
// evaluation, and only while its broker is paused. Berth deletes only those
// that have ended and that nothing needs, so the broker need not be paused.
type DeleteEvals struct {
	EvalIDs []string
	Filter  string
	Write
}

// EvalsDeleted answers DeleteEvals.
type EvalsDeleted struct{ Count int }

// The operations of the system's maintenance.
var (
	CollectGarbage = define[SystemGC, SystemGCRaised]("system.gc", "PUT /v1/system/gc", "", acl.Management, acl.NoSpace)
	EvalDelete     = define[DeleteEvals, EvalsDeleted]("eval.delete", "DELETE /v1/evaluations", "", acl.Management, acl.NoSpace, withBody)
)
