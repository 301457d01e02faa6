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

// jobRunCommand registers a job file and follows what comes of it.
func jobRunCommand() *command {
	return &command{
		name: "job run", args: "<path>", synopsis: "Register or update a job and monitor it", min: 1, max: 1,
		example: "job run -var image=web:1.4 web.nomad.hcl",
		help: `Reads a job file, or standard input with "-", registers the job, and monitors its evaluation: the allocations that are placed and
			their nodes. For a service, it waits until all of them run; for a batch job, until all have started. If a group cannot be placed,
			it reports what the nodes lack. On a terminal, the groups and their allocations are shown live below, those first that need a
			look, and the last output of tasks that fail is printed.

			The exit code is 0 on success, 2 if something could not be placed, and 1 on any other error. What could not be placed waits in a
			blocked evaluation, whose ID is printed, and is placed as soon as there is capacity.

			For a stream job, it follows the submission until all parts of the job exist and each processing element has an allocation, or
			until the submission fails.

			Job file variables come from the environment (BERTH_VAR_name or NOMAD_VAR_name), from -var-file and from -var. Later sources win.`,
		setup: func(f *flags) action {
			r := jobRun{
				file:      f.jobFile(),
				detach:    f.Bool("detach", "Print the evaluation ID and return without monitoring."),
				verbose:   f.Bool("verbose", "Show IDs in full."),
				output:    f.Bool("output", "Print the job as the JSON that would be submitted, and exit."),
				counts:    f.Bool("preserve-counts", "Keep the current counts of existing groups."),
				resources: f.Bool("preserve-resources", "Keep the current resources of existing tasks."),
				priority:  f.Int("eval-priority", 0, "The `priority` of the evaluation, 1 to 100. Defaults to the priority of the job."),
			}
			r.index = f.String("check-index", "Register only if the job's current modify `index` is this. 0 means that the job must not exist.")
			f.Unsupported("consul-namespace", "vault-namespace")
			f.UnsupportedBool("policy-override", "hcl1")
			f.webFlag()
			return r.run
		},
	}
}

// jobRun holds the flags of "job run".
type jobRun struct {
	file                                       jobFileFlags
	detach, verbose, output, counts, resources *bool
	priority                                   *int
	index                                      *string
}

// run registers the job and monitors it: by its evaluation, or for a stream job
// by its submission. With -output it calls no server.
func (r *jobRun) run(ctx context.Context, c *call) error {
	f, err := r.file.read(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	// What is printed is what would be sent, so "job run -json" accepts it.
	if *r.output {
		text, err := client.EncodeTree(f.tree)
		if err != nil {
			return err
		}
		return c.json(map[string]any{"Job": text})
	}
	if err := f.seek(ctx, c); err != nil {
		return err
	}
	in := op.RegisterJob{
		Job: f.tree, Submission: f.submission, PreserveCounts: *r.counts, PreserveResources: *r.resources, EvalPriority: *r.priority,
		Write: op.Write{Region: c.config.Region, Namespace: f.job.Namespace},
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
	c.web(ctx, uiJob(f.job.Namespace, f.job.ID))
	// Warnings go to standard error, so that scripts can read the rest.
	if out.Warnings != "" {
		fmt.Fprintf(c.Err, "Job Warnings:\n* %s\n\n", strings.ReplaceAll(clean(out.Warnings), "\n", "\n* "))
	}
	if f.job.Type == berth.TypeStream && !*r.detach {
		return c.monitorSubmission(ctx, f.job.ID, f.job.Namespace, *r.verbose)
	}
	// Periodic and parameterized jobs have no evaluation of their own.
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
	err = c.monitor(ctx, out.EvalID, monitorOptions{
		verbose: *r.verbose, settle: true, job: f.job.ID, namespace: f.job.Namespace,
	})
	if err != nil {
		c.suggest("job explain " + string(f.job.ID))
	} else {
		c.suggest("job status "+string(f.job.ID), "alloc logs -job "+string(f.job.ID))
	}
	return err
}

// register registers the job. If a job with its ID is being deleted, it waits
// until that one is gone.
func (r *jobRun) register(ctx context.Context, c *call, id berth.JobID, in *op.RegisterJob) (op.JobRegistered, error) {
	for reported := false; ; reported = true {
		out, _, err := client.Call(ctx, c.client, op.Register, *in)
		if berth.CodeOf(err) != berth.CodeDeleting {
			return out, err
		}
		if !reported {
			fmt.Fprintf(c.Out, "==> %s: Waiting for the deletion of job %q\n", stamp(c.Now()), clean(string(id)))
		}
		if err := pauseFor(retryPause)(ctx); err != nil {
			return out, err
		}
	}
}

// enforce applies -check-index.
func (r *jobRun) enforce(c *call, in *op.RegisterJob) error {
	if !c.flags.given("check-index") {
		return nil
	}
	var n uint64
	if _, err := fmt.Sscanf(*r.index, "%d", &n); err != nil || fmt.Sprint(n) != *r.index || n == math.MaxUint64 {
		return c.usagef("flag -check-index must be an integer of at least 0, got %q", *r.index)
	}
	in.EnforceIndex, in.JobModifyIndex = true, n
	return nil
}
