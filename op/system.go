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
	// EvalID is the core evaluation that does it. Its status description says
	// what was deleted.
	EvalID berth.EvalID
}

// DeleteEvals asks for evaluations to be forgotten: those named, or those of
// the request's namespace that meet an expression, not both. Nomad deletes any,
// and so only while its broker is paused; here only those go that have ended
// and that nothing needs, which no broker has, so it need not be.
type DeleteEvals struct {
	EvalIDs []string
	Filter  string
	Write
}

// EvalsDeleted answers DeleteEvals.
type EvalsDeleted struct{ Count int }

// The operations of the system's upkeep.
var (
	CollectGarbage = define[SystemGC, SystemGCRaised]("system.gc", "PUT /v1/system/gc", "", acl.Management, acl.NoSpace)
	EvalDelete     = define[DeleteEvals, EvalsDeleted]("eval.delete", "DELETE /v1/evaluations", "", acl.Management, acl.NoSpace, withBody)
)
