package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/op"
)

func resourceDeleteCommand() *command {
	return &command{
		name: "resource delete", args: "<UID>", synopsis: "Delete an object by its UID", min: 1, max: 1,
		help: `Deletes the object of a UID: a job, what a stream job owns, an allocation of a stream job, or one that was left to itself.
A UID names one object for ever, so nothing else is deleted by mistake.

What a stream job is to have is made again, as another object with another UID; a processing element goes on counting its
launches. The allocations of a processing element are stopped with it.`,
		setup: func(f *flags) action {
			r := resourceDelete{how: f.String("propagation", "What becomes of what the object owns, by this `policy`: background, foreground or orphan.")}
			return r.run
		},
	}
}

type resourceDelete struct{ how *string }

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
