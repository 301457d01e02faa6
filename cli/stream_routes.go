package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

func streamRoutesCommand() *command {
	return &command{
		name: "stream routes", args: "[job]", synopsis: "List which exports feed which imports", max: 1,
		help: `Lists the connections between the exports and the imports of stream jobs: all of the namespace, those that begin or end
at a job, or with -pe at a processing element. They follow from what is exported and imported and are not stored. An export is
found by its name or by its properties; a filter is evaluated by the exporting process.`,
		setup: func(f *flags) action {
			s := streamRoutes{data: f.data(), pe: f.String("pe", "List the routes of this processing `element` alone, by its name or UID.")}
			return s.run
		},
	}
}

type streamRoutes struct {
	data dataFlags
	pe   *string
}

func (s streamRoutes) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	in := op.RoutesQuery{PE: *s.pe}
	if len(c.args) > 0 {
		j, err := c.findStreamJob(ctx, c.args[0])
		if err != nil {
			return err
		}
		in.Job, in.Query = string(j.ID), of(&j)
	}
	list, _, err := client.Call(ctx, c.client, op.ListRoutes, in)
	switch {
	case err != nil:
		return err
	case s.data.wanted():
		return s.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No routes")
		return c.show(p)
	}
	rows := [][]string{{"From", "Output", "To", "Input", "By", "Filter"}}
	for _, v := range list {
		rows = append(rows, []string{v.From.PE, v.From.Port, v.To.PE, v.To.Port, v.By, or(v.Filter, none)})
	}
	p.table(rows)
	return c.show(p)
}
