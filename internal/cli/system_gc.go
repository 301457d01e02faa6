package cli

import (
	"context"
	"fmt"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

func systemGCCommand() *command {
	return &command{
		name: "system gc", synopsis: "Delete what nothing needs any more",
		help: `Deletes evaluations, allocations, jobs, deployments and nodes that have ended and that nothing needs any more, without
waiting until they are as old as the servers keep them, and says how many. What is running is never touched; nor is what
the servers need to know of it, such as which instances of a batch job are finished.`,
		setup: func(*flags) action { return systemGC },
	}
}

func systemGC(ctx context.Context, c *call) error {
	out, meta, err := client.Call(ctx, c.client, op.CollectGarbage, op.SystemGC{})
	if err != nil || out.EvalID.IsZero() { // Nomad's servers name no evaluation
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
