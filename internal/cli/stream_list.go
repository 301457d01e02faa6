package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

// streamList lists objects of stream jobs: all of a namespace, or those of the
// job in the argument.
type streamList[In, Row any] struct {
	data  dataFlags
	op    op.Op[In, []Row]
	of    func(job string, q op.Query) In // the input of op; job is "" for all
	none  string                          // printed for an empty list
	table func([]Row) [][]string
}

// run prints the list as data or as a table.
func (l streamList[In, Row]) run(ctx context.Context, c *call) error {
	if err := l.data.check(c); err != nil {
		return err
	}
	in := l.of("", op.Query{})
	if len(c.args) > 0 {
		j, err := c.findStreamJob(ctx, c.args[0])
		if err != nil {
			return err
		}
		in = l.of(string(j.ID), of(&j))
	}
	list, _, err := client.Call(ctx, c.client, l.op, in)
	switch {
	case err != nil:
		return err
	case l.data.wanted():
		return l.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("%s", l.none)
	} else {
		p.table(l.table(list))
	}
	return c.show(p)
}
