package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobDispatchCommand creates a child of a parameterized job.
func jobDispatchCommand() *command {
	return &command{
		name: "job dispatch", args: "<parameterized job> [input]", synopsis: "Dispatch an instance of a parameterized job", min: 1, max: 2,
		example: "job dispatch -meta customer=42 report payload.json",
		help: `Creates a child of a parameterized job and monitors its evaluation until the tasks have started. The input is a file with the
			payload, or "-" for standard input. A payload can have up to 16384 bytes.

			With -idempotency-token, dispatching again with the same token creates no second child: it reports the first one, as long as that
			exists.

			The exit code is 0 on success, 2 if something could not be placed, and 1 on any other error. With -wait, the command follows the
			child until it has ended, even if part of it is still waiting for capacity; the exit code is then 1 if an allocation failed for
			good or the child was stopped.`,
		setup: func(f *flags) action {
			d := jobDispatch{
				meta:     f.List("meta", "Metadata for the child as `key=value`. Can be repeated."),
				token:    f.String("idempotency-token", "Idempotency `token`: at most one child is created per token."),
				prefix:   f.String("id-prefix-template", "A `text` to include in the child's ID."),
				priority: f.Int("priority", 0, "The `priority` of the child, 1 to 100. Defaults to the priority of the job."),
				detach:   f.Bool("detach", "Print the IDs of the child and its evaluation and return without monitoring."),
				wait:     f.Bool("wait", "Wait until the child has ended."),
				verbose:  f.Bool("verbose", "Show IDs in full."),
			}
			f.webFlag()
			return d.run
		},
	}
}

// jobDispatch holds the flags of "job dispatch".
type jobDispatch struct {
	meta            *[]string
	token, prefix   *string
	priority        *int
	detach, verbose *bool
	wait            *bool
}

// run dispatches and monitors. It takes only the full ID of a job, as it
// creates something; local mistakes are found before any call.
func (d jobDispatch) run(ctx context.Context, c *call) error {
	if *d.wait && *d.detach {
		return c.usagef("-detach and -wait cannot be used together")
	}
	in := op.DispatchJob{IdPrefixTemplate: *d.prefix, Priority: *d.priority, Meta: map[string]string{}}
	for _, text := range *d.meta {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return c.usagef("flag -meta must be key=value, got %q", text)
		}
		in.Meta[key] = value
	}
	// A payload that is too large is refused here, before it is sent.
	if len(c.args) == 2 {
		file, _, err := c.readFile(c.args[1], "payload")
		if err != nil {
			return err
		}
		if n := len(file.Text); n > berth.MaxPayload {
			return berth.Errorf(berth.TooLarge, "the payload %s has %d bytes: at most %d are allowed", file.Name, n, berth.MaxPayload)
		}
		in.Payload = file.Text
	}
	j, exact, err := c.findJob(ctx, c.args[0])
	if err == nil && !exact {
		err = notWhole(c, &j)
	}
	if err != nil {
		return err
	}
	// The token makes a retry safe: the server returns the child of the first
	// dispatch.
	in.JobID, in.Write = string(j.ID), op.Write{Namespace: j.Namespace, IdempotencyToken: *d.token}
	out, _, err := client.Call(ctx, c.client, op.Dispatch, in)
	if err != nil {
		return err
	}
	c.web(ctx, uiJob(j.Namespace, out.DispatchedJobID))
	if out.JobCreateIndex < out.Index { // an earlier dispatch created the child
		fmt.Fprintf(c.Out, "Job %q already dispatched with idempotency token %q.\n", out.DispatchedJobID, *d.token)
		if !*d.wait || out.EvalID.IsZero() {
			return nil
		}
	} else {
		p := c.page()
		p.pairs("Dispatched Job ID", string(out.DispatchedJobID), "Evaluation ID", short(out.EvalID.String(), *d.verbose))
		if err := c.show(p); err != nil || *d.detach || out.EvalID.IsZero() {
			return err
		}
	}
	// The monitor's lines stand apart from the IDs.
	fmt.Fprintln(c.Out)
	return c.monitor(ctx, out.EvalID, monitorOptions{verbose: *d.verbose, settle: true, toEnd: *d.wait, job: out.DispatchedJobID, namespace: j.Namespace})
}
