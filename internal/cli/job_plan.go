package cli

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// jobPlanCommand shows what registering a job file would do. Its exit codes
// differ from those of other commands, for scripts that test for changes.
func jobPlanCommand() *command {
	return &command{
		name: "job plan", args: "<path>", synopsis: "Dry-run a job registration and show its effects", min: 1, max: 1, failure: exitNoPlan,
		example: "job plan web.nomad.hcl",
		help: `Reads a job file, or standard input with "-", and asks the servers what registering the job would do. Shows the differences from
			the registered job, what the scheduler would do, how many allocations it would create and destroy, and what could not be placed
			and why. Nothing is changed.

			Pass the printed job modify index to "job run" with -check-index to register the job only if nobody has changed it since.

			The exit code is 0 if no allocation would be created or destroyed, 1 if some would be, and 255 on error.`,
		setup: func(f *flags) action {
			p := jobPlan{
				file:    f.jobFile(),
				diff:    f.FlagSet.Bool("diff", true, "Show the differences from the registered job. Use -diff=false to omit them."),
				verbose: f.Bool("verbose", "Show added and removed objects in full, and full IDs."),
				data: dataFlags{
					f.Bool("json-output", "Print the API response as JSON."),
					f.String("t", "Format the API response with this Go `template`. Field names are those of -json-output."),
				},
			}
			f.Unsupported("vault-namespace")
			f.UnsupportedBool("policy-override")
			return p.run
		},
	}
}

// jobPlan holds the flags of "job plan".
type jobPlan struct {
	file          jobFileFlags
	diff, verbose *bool
	data          dataFlags
	planned       *berth.Job // the job of the file, set by run
}

// run prints the plan and returns exit(exitChanges) if allocations would be
// created or destroyed. The server changes nothing.
func (j jobPlan) run(ctx context.Context, c *call) error {
	if *j.data.json && *j.data.template != "" {
		return c.usagef("-json-output and -t cannot be used together")
	}
	f, err := j.file.read(ctx, c, c.args[0])
	if err != nil {
		return err
	}
	j.planned = f.job
	if err := f.seek(ctx, c); err != nil {
		return err
	}
	in := op.PlanJob{
		JobID: string(f.job.ID), Job: f.tree, Diff: *j.diff, Write: op.Write{Region: c.config.Region, Namespace: f.job.Namespace},
	}
	out, _, err := client.Call(ctx, c.client, op.Plan, in)
	if err != nil {
		return err
	}
	if j.data.wanted() {
		err = j.data.write(c, out)
	} else {
		err = c.show(j.page(c, &out))
	}
	// The exit code is the same for data and for text.
	if err == nil && changesAllocs(&out) {
		return exit(exitChanges)
	}
	return err
}

// changesAllocs reports whether an allocation would be created or destroyed,
// now or once there is capacity.
func changesAllocs(out *op.JobPlanned) bool {
	if out.Annotations == nil {
		return false
	}
	for _, u := range out.Annotations.DesiredTGUpdates {
		if u.Place+u.Stop+u.Migrate+u.DestructiveUpdate+u.Canary > 0 {
			return true
		}
	}
	return false
}

// page shows the plan, from the difference to the command that registers it.
func (j jobPlan) page(c *call, out *op.JobPlanned) *page {
	p := c.page()
	// The server leaves the difference out with -diff=false.
	if out.Diff != nil {
		for _, line := range diffLines(out.Diff, *j.verbose) {
			p.linef("%s", line)
		}
	}
	p.heading("Scheduler dry-run:")
	j.dryRun(c, p, out)
	if f := j.planned; f.Periodic != nil {
		if runs := c.nextRuns(f.Periodic); len(runs) > 0 {
			p.heading("Next Runs")
			for _, r := range runs {
				p.linef("%s", r)
			}
		}
	}
	p.gap()
	p.linef("Changes: %s", changesText(out.Changes))
	if out.Annotations != nil && len(out.Annotations.PreemptedAllocs) > 0 {
		p.heading("Preemptions:")
		p.table(preemptions(out.Annotations.PreemptedAllocs, *j.verbose))
	}
	if out.Warnings != "" {
		p.heading("Job Warnings:")
		p.linef("* %s", strings.ReplaceAll(out.Warnings, "\n", "\n* "))
	}
	p.heading(fmt.Sprintf("Job Modify Index: %d", out.JobModifyIndex))
	p.linef("To register the job as planned, unless someone has changed it since, run:")
	p.gap()
	p.linef("%s", j.runAs(c, out.JobModifyIndex))
	return p
}

// dryRun adds what the scheduler did with the job on a copy of the state:
// failures, later evaluations and the next launch.
func (j jobPlan) dryRun(c *call, p *page, out *op.JobPlanned) {
	if len(out.FailedTGAllocs) == 0 {
		p.linef("- All tasks successfully allocated.")
	} else {
		p.linef("- WARNING: Failed to place all allocations.")
		for _, g := range failedGroups(&op.Eval{FailedTGAllocs: out.FailedTGAllocs}) {
			p.linef("  %s", g.head)
			for _, l := range g.lines {
				p.linef("    %s", l)
			}
		}
	}
	// Delayed evaluations do the rest of a change that must not happen at once.
	for _, e := range out.CreatedEvals {
		if !e.WaitUntil.IsZero() {
			p.linef("- The next evaluation (%s) is due at %s, %s.", e.TriggeredBy, stamp(e.WaitUntil), c.ago(e.WaitUntil))
		}
	}
	if t := out.NextPeriodicLaunch; !t.IsZero() {
		p.linef("- If submitted now, next periodic launch would be at %s (%s).", stamp(t), c.ago(t))
	}
}

// changesText sums up what would be done to the allocations of all groups.
func changesText(groups map[string]op.GroupChanges) string {
	var n op.GroupChanges
	for _, g := range groups {
		n.Created += g.Created
		n.Destroyed += g.Destroyed
		n.Updated += g.Updated
		n.Migrated += g.Migrated
		n.Kept += g.Kept
		n.Queued += g.Queued
		n.Evicted += g.Evicted
	}
	s := fmt.Sprintf("%d created, %d destroyed, %d updated in place, %d migrated, %d kept", n.Created, n.Destroyed, n.Updated, n.Migrated, n.Kept)
	if n.Queued > 0 {
		s += fmt.Sprintf(", %d not placed", n.Queued)
	}
	if n.Evicted > 0 {
		s += fmt.Sprintf(", %d preempted", n.Evicted)
	}
	return s
}

// manyPreempted is the number of preempted allocations from which on they are
// counted by job, and of jobs from which on these are counted by type.
const manyPreempted = 10

// preemptions lists the allocations of other jobs that would be preempted, or
// counts them if there are many.
func preemptions(list []op.AllocStub, verbose bool) [][]string {
	if len(list) < manyPreempted || verbose {
		rows := [][]string{{"Alloc ID", "Job ID", "Task Group"}}
		for _, a := range list {
			rows = append(rows, []string{short(a.ID.String(), verbose), string(a.JobID), a.TaskGroup})
		}
		return rows
	}
	// Few jobs are counted each; many only by type, so that the table stays
	// short.
	jobs, types := map[[3]string]int{}, map[[3]string]int{}
	for _, a := range list {
		jobs[[3]string{string(a.JobID), a.Namespace, a.JobType}]++
		types[[3]string{a.JobType}]++
	}
	if len(jobs) < manyPreempted {
		return counted([]string{"Job ID", "Namespace", "Job Type", "Preemptions"}, jobs)
	}
	return counted([]string{"Job Type", "Preemptions"}, types)
}

// counted is a table of counts by key. head names the parts of the key that are
// shown, and the count.
func counted(head []string, n map[[3]string]int) [][]string {
	rows := [][]string{head}
	keys := slices.SortedFunc(maps.Keys(n), func(a, b [3]string) int {
		return cmp.Or(strings.Compare(a[1], b[1]), strings.Compare(a[0], b[0]), strings.Compare(a[2], b[2]))
	})
	for _, k := range keys {
		rows = append(rows, append(k[:len(head)-1:len(head)-1], strconv.Itoa(n[k])))
	}
	return rows
}

// runAs is the command line that registers the planned job.
func (j jobPlan) runAs(c *call, index uint64) string {
	words := []string{c.Name, "job run -check-index", strconv.FormatUint(index, 10)}
	// Flags that change which job is registered, or where, must be the same.
	for _, name := range []string{"address", "region", "namespace", "json", "hcl2-strict", "var-file", "var"} {
		if !c.flags.given(name) {
			continue
		}
		if l, ok := c.flags.Lookup(name).Value.(*list); ok {
			for _, v := range *l {
				words = append(words, shellWord("-"+name+"="+v))
			}
			continue
		}
		words = append(words, flagWord(c.flags.Lookup(name)))
	}
	return strings.Join(append(words, shellWord(c.args[0])), " ")
}

// flagWord returns a flag that was given as one word of a command line.
func flagWord(g *flag.Flag) string {
	if b, ok := g.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() && g.Value.String() == "true" {
		return "-" + g.Name
	}
	return shellWord("-" + g.Name + "=" + g.Value.String())
}

// shellWord quotes a word for the shell.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-_./=:,+@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
