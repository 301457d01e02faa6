package cli

import (
	"context"

	"berth"
	"berth/internal/daemon"
)

// operatorRaftRecoverCommand decides about the data of one server for a cluster
// that cannot decide by itself.
func operatorRaftRecoverCommand() *command {
	return &command{
		name: "operator raft recover", synopsis: "Choose how a stopped server recovers its data", local: true,
		example: "operator raft recover -data-dir /var/lib/berth -refill",
		help: `Changes what a stopped server does with its data at its next start. Use it when the servers' log says so, or when a cluster lost
			most of its servers for good. Run it on the machine of that server. Exactly one decision is required. Nothing is deleted: data that
			is not used any more is kept in the folder "differs" of the server's data.`,
		setup: func(f *flags) action {
			dir := f.String("data-dir", "The data `directory` of the agent, as in its configuration.")
			decisions := []struct {
				is   *bool
				what daemon.Recovery
			}{
				{f.Bool("refill", "The data is wrong or damaged: set it aside, and let the leader refill the server."), daemon.Refill},
				{f.Bool("cancel-refill", "Use the data again that the server set aside. Possible until the refill has begun."), daemon.CancelRefill},
				{f.Bool("accept-loss", "Go on with a log that ends too early, on the only server of a cluster. What is missing is lost."), daemon.AcceptLoss},
				{f.Bool("alone", "Make the server the only one of its cluster. Changes that only other servers have are lost."), daemon.Alone},
			}
			return func(_ context.Context, c *call) error {
				if *dir == "" {
					return c.usagef("-data-dir is required")
				}
				var chosen []daemon.Recovery
				for _, d := range decisions {
					if *d.is {
						chosen = append(chosen, d.what)
					}
				}
				if len(chosen) != 1 {
					return c.usagef("exactly one decision is required, got %d", len(chosen))
				}
				next, err := daemon.Recover(c.path(*dir), chosen[0])
				if err != nil {
					return berth.Errorf(berth.Invalid, "%w", err)
				}
				p := c.page()
				p.linef("%s", next)
				return c.show(p)
			}
		},
	}
}
