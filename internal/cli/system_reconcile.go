package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

// systemReconcileSummariesCommand asks the servers to count allocations again.
func systemReconcileSummariesCommand() *command {
	return &command{
		name: "system reconcile summaries", synopsis: "Check the summaries of all jobs",
		example: "system reconcile summaries",
		help: `Asks the servers to make the summaries of all jobs agree with their allocations. In Berth they always do, because each change
			of an allocation changes the summary of its job with it, so there is nothing to repair. The command is there for scripts.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				_, _, err := client.Call(ctx, c.client, op.Reconcile, op.ReconcileSummaries{})
				return err
			}
		},
	}
}
