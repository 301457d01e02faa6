package cli

import (
	"context"
	"fmt"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

func jobDispatchCommand() *command {
	return &command{
		name: "job dispatch", args: "<parameterized job> [input]", synopsis: "Run a parameterized job with a payload and metadata", min: 1, max: 2,
		help: `Makes a child of a parameterized job and follows its evaluation until its tasks were started. The input is a file whose
content is the payload, or - for standard input; a payload has 16384 bytes at most.

With -idempotency-token a second dispatch with the same token makes no other child: it names the first, as long as that is
there.

The exit code is 0 if all went well, 2 if something found no place, and 1 for anything else. With -wait the child is
followed until it has ended, also while something of it waits for a place; then 1 says that something of it failed for
good, or that it was stopped.`,
		setup: func(f *flags) action {
			d := jobDispatch{
				meta:     f.List("meta", "Metadata for the child, as `key=value`. May be given many times."),
				token:    f.String("idempotency-token", "A `token` of which there is one child at most."),
				prefix:   f.String("id-prefix-template", "A `text` that stands in the ID of the child."),
				priority: f.Int("priority", 0, "The `priority` of the child, 1 to 100; 0 is the job's."),
				detach:   f.Bool("detach", "Print the IDs of the child and of its evaluation and follow nothing."),
				wait:     f.Bool("wait", "Follow the child until it has ended."),
				verbose:  f.Bool("verbose", "Show IDs in full."),
			}
			f.UnbuiltBool("ui")
			return d.run
		},
	}
}

type jobDispatch struct {
	meta            *[]string
	token, prefix   *string
	priority        *int
	detach, verbose *bool
	wait            *bool
}

func (d jobDispatch) run(ctx context.Context, c *call) error {
	if *d.wait && *d.detach {
		return c.usagef("-detach and -wait ask for two things; give one of them")
	}
	in := op.DispatchJob{IdPrefixTemplate: *d.prefix, Priority: *d.priority, Meta: map[string]string{}}
	for _, text := range *d.meta {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return c.usagef("-meta %q: key=value is wanted", text)
		}
		in.Meta[key] = value
	}
	if len(c.args) == 2 {
		file, _, err := c.readFile(c.args[1], "payload")
		if err != nil {
			return err
		}
		if n := len(file.Text); n > berth.MaxPayload {
			return berth.Errorf(berth.TooLarge, "the payload %s has %d bytes; allowed are %d", file.Name, n, berth.MaxPayload)
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
	in.JobID, in.Write = string(j.ID), op.Write{Namespace: j.Namespace, IdempotencyToken: *d.token}
	out, _, err := client.Call(ctx, c.client, op.Dispatch, in)
	if err != nil {
		return err
	}
	if out.JobCreateIndex < out.Index { // an earlier dispatch made the child
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
	fmt.Fprintln(c.Out)
	return c.monitor(ctx, out.EvalID, monitorOptions{verbose: *d.verbose, settle: true, toEnd: *d.wait, job: out.DispatchedJobID, namespace: j.Namespace})
}
