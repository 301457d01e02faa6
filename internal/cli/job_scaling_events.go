package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"berth/client"
	"berth/op"
)

// jobScalingEventsCommand lists who changed counts of a job, when and why.
func jobScalingEventsCommand() *command {
	return &command{
		name: "job scaling-events", args: "<job>", synopsis: "List recent scaling events of a job", min: 1, max: 1,
		example: "job scaling-events web",
		help: `Lists the scaling events of a job, newest first: changes of counts and messages from autoscalers. The newest 20 of each group are
			kept.`,
		setup: func(f *flags) action {
			s := jobScalingEvents{verbose: f.Bool("verbose", "Show full IDs and absolute times.")}
			return s.run
		},
	}
}

// jobScalingEvents holds the flags of "job scaling-events".
type jobScalingEvents struct{ verbose *bool }

// run prints the events of all groups in one list, newest first.
func (s jobScalingEvents) run(ctx context.Context, c *call) error {
	j, _, err := c.findJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, op.ReadScale, op.JobRef{JobID: string(j.ID), Query: of(&j)})
	if err != nil {
		return err
	}
	type event struct {
		group string
		op.ScalingEvent
	}
	var list []event
	for name, g := range out.TaskGroups {
		for _, e := range g.Events {
			list = append(list, event{name, e})
		}
	}
	slices.SortFunc(list, func(a, b event) int { return cmp.Compare(b.CreateIndex, a.CreateIndex) })
	p := c.page()
	if len(list) == 0 {
		p.linef("No events found")
		return c.show(p)
	}
	rows := [][]string{{"Task Group", "Count", "PrevCount", "Error", "Message", "Eval ID", "Date"}}
	for _, e := range list {
		// An event may be only a message, without a count or an evaluation.
		count, eval := "", ""
		if e.Count != nil {
			count = strconv.FormatInt(*e.Count, 10)
		}
		if e.EvalID != nil {
			eval = e.EvalID.String()
		}
		rows = append(rows, []string{
			e.group, count, strconv.FormatInt(e.PreviousCount, 10), strconv.FormatBool(e.Error), e.Message, short(eval, *s.verbose),
			c.when(int64(e.Time), *s.verbose),
		})
	}
	p.table(rows)
	return c.show(p)
}
