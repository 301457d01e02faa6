package cli

import (
	"context"
	"fmt"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// systemGCCommand has the servers collect now, regardless of age.
func systemGCCommand() *command {
	return &command{
		name: "system gc", synopsis: "Run garbage collection now",
		example: "system gc",
		help: `Deletes evaluations, allocations, jobs, deployments and nodes that have ended and are no longer needed, without waiting for the
			usual age thresholds, and objects that deleted stream jobs left behind, and prints how many were deleted. Nothing that is running is affected, nor is the state that it depends on,
			such as which allocations of a batch job have finished.`,
		setup: func(*flags) action { return systemGC },
	}
}

// systemGC requests the collection, waits for its evaluation and prints its
// result.
func systemGC(ctx context.Context, c *call) error {
	out, meta, err := client.Call(ctx, c.client, op.CollectGarbage, op.SystemGC{})
	if err != nil || out.EvalID.IsZero() { // Nomad's servers return no evaluation
		return err
	}
	e, err := c.ended(ctx, out.EvalID, meta.Index)
	if err != nil {
		return err
	}
	if e.Status == berth.EvalFailed {
		return berth.Errorf(berth.Unavailable, "evaluation %s failed: %s", e.ID, e.StatusDescription)
	}
	_, err = fmt.Fprintln(c.Out, clean("The collection "+or(e.StatusDescription, "is "+e.Status)))
	return err
}

// ended waits until an evaluation has ended.
func (c *call) ended(ctx context.Context, id berth.EvalID, index uint64) (op.Eval, error) {
	for {
		in := op.EvalQuery{EvalID: id.String(), Query: op.Query{MinQueryIndex: index, MaxQueryTime: time.Minute}}
		e, meta, err := client.Call(ctx, c.client, op.ReadEval, in)
		if err != nil || terminal(e.Status) {
			return e, err
		}
		index = meta.Index
	}
}
