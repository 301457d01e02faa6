package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

// resourceDeleteCommand deletes one object of any kind.
func resourceDeleteCommand() *command {
	return &command{
		name: "resource delete", args: "<UID>", synopsis: "Delete an object by its UID", min: 1, max: 1, list: "resource list",
		example: "resource delete j-9f86d081884c7d65-2f",
		help: `Deletes the object with a UID: a job, an object of a stream job, an allocation of a stream job, or an orphaned allocation. A UID
			identifies one object forever, so nothing else can be deleted by mistake.

			An object that its stream job still needs is created again, with a new UID; a processing element keeps its launch count. Deleting
			a processing element stops its allocations.`,
		setup: func(f *flags) action {
			r := resourceDelete{how: f.String("propagation", "The `policy` for what the object owns: background, foreground or orphan.")}
			return r.run
		},
	}
}

// resourceDelete holds the flags of "resource delete".
type resourceDelete struct{ how *string }

// run deletes the object and prints the index of the deletion. It does not wait
// for what -propagation=foreground waits for.
func (r resourceDelete) run(ctx context.Context, c *call) error {
	if _, err := berth.ParsePropagation("-propagation", *r.how); err != nil {
		return c.usagef("%v", err)
	}
	out, _, err := client.Call(ctx, c.client, op.RemoveResource, op.DeleteResource{UID: c.args[0], Propagation: *r.how})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "Resource %s deleted at index %d\n", clean(c.args[0]), out.Index)
	return err
}
