package cli

import (
	"context"
	"fmt"
	"math"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

func jobRunCommand() *command {
	return &command{
		name: "job run", args: "<path>", synopsis: "Register a job, or a change of it, and follow what becomes of it", min: 1, max: 1,
		help: `Reads a job file, "-" being standard input, and registers the job with the servers. Then it follows the evaluation of
the job: which allocations were made, on which nodes, and for a service until all of them run, for a batch job until all of them
were started. What finds no place is told by group, with what was missing on how many nodes.

The exit code is 0 if all went well, 2 if something found no place, and 1 for anything else. What found no place waits
in an evaluation of its own and is placed as soon as there is room; the monitor names it.

Of a stream job it follows the submission until all that the job consists of is there and each of its processing elements has
an allocation, or until the submission is given up.

Variables of the job file come from the environment (BERTH_VAR_name or NOMAD_VAR_name), from -var-file and from -var,
the last winning.`,
		setup: func(f *flags) action {
			r := jobRun{
				file:      f.jobFile(),
				detach:    f.Bool("detach", "Print the ID of the evaluation and follow nothing."),
				verbose:   f.Bool("verbose", "Show IDs in full."),
				output:    f.Bool("output", "Print the job as JSON, as it would be sent, and send nothing."),
				counts:    f.Bool("preserve-counts", "Keep the counts of groups that the job has already."),
				resources: f.Bool("preserve-resources", "Keep the resources of tasks that the job has already."),
				priority:  f.Int("eval-priority", 0, "The `priority` of the evaluation, 1 to 100; 0 is the job's."),
			}
			r.index = f.String("check-index", "Register only if the job is at this modify `index`; 0 only if there is no such job.")
			f.Unbuilt("consul-namespace", "vault-namespace")
			f.UnbuiltBool("policy-override", "ui", "hcl1")
			return r.run
		},
	}
}

type jobRun struct {
	file                                       jobFileFlags
	detach, verbose, output, counts, resources *bool
	priority                                   *int
	index                                      *string
}

func (r *jobRun) run(ctx context.Context, c *call) error {
	f, err := r.file.read(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	if *r.output {
		text, err := client.EncodeTree(f.tree)
		if err != nil {
			return err
		}
		return c.json(map[string]any{"Job": text})
	}
	in := op.RegisterJob{
		Job: f.tree, Submission: f.submission, PreserveCounts: *r.counts, PreserveResources: *r.resources, EvalPriority: *r.priority,
		Write: op.Write{Region: f.job.Region, Namespace: f.job.Namespace},
	}
	if _, said := f.tree["Region"]; !said {
		in.Region = ""
	}
	if err := r.enforce(c, &in); err != nil {
		return err
	}
	out, err := r.register(ctx, c, f.job.ID, &in)
	if err != nil {
		if berth.KindOf(err) == berth.Conflict && in.EnforceIndex {
			return fmt.Errorf("%w\nJob not updated", err)
		}
		return err
	}
	if out.Warnings != "" {
		fmt.Fprintf(c.Err, "Job Warnings:\n* %s\n\n", strings.ReplaceAll(clean(out.Warnings), "\n", "\n* "))
	}
	if f.job.Type == berth.TypeStream && !*r.detach {
		return c.monitorSubmission(ctx, f.job.ID, f.job.Namespace, *r.verbose)
	}
	if out.EvalID.IsZero() || *r.detach {
		p := c.page()
		p.linef("Job registration successful")
		if f.job.Periodic != nil {
			p.linef("Next launch: %s", c.nextLaunch(&op.Job{Job: f.job}))
		}
		if !out.EvalID.IsZero() {
			p.linef("Evaluation ID: %s", out.EvalID)
		}
		return c.show(p)
	}
	return c.monitor(ctx, out.EvalID, monitorOptions{
		verbose: *r.verbose, settle: true, job: f.job.ID, namespace: f.job.Namespace,
	})
}

// register registers the job, and waits first until one of its ID that is being
// deleted has gone.
func (r *jobRun) register(ctx context.Context, c *call, id berth.JobID, in *op.RegisterJob) (op.JobRegistered, error) {
	for told := false; ; told = true {
		out, _, err := client.Call(ctx, c.client, op.Register, *in)
		if berth.CodeOf(err) != berth.CodeDeleting {
			return out, err
		}
		if !told {
			fmt.Fprintf(c.Out, "==> %s: Waiting until job %q, which is being deleted, has gone\n", stamp(c.Now()), clean(string(id)))
		}
		if err := pauseFor(retryPause)(ctx); err != nil {
			return out, err
		}
	}
}

// enforce reads -check-index.
func (r *jobRun) enforce(c *call, in *op.RegisterJob) error {
	if !c.flags.given("check-index") {
		return nil
	}
	var n uint64
	if _, err := fmt.Sscanf(*r.index, "%d", &n); err != nil || fmt.Sprint(n) != *r.index || n == math.MaxUint64 {
		return c.usagef("the flag -check-index: %q is not an index, a whole number that is not below 0", *r.index)
	}
	in.EnforceIndex, in.JobModifyIndex = true, n
	return nil
}
