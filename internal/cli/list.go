package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

// listFlags are the flags of commands that print long lists.
type listFlags struct {
	data dataFlags
	page pageFlags
}

// list declares the flags for data and pagination together.
func (f *flags) list() listFlags { return listFlags{f.data(), f.paging()} }

// showList prints the list that o returns: as data if that was asked for, else
// with show, or the text none if it is empty.
func showList[In, Row any](ctx context.Context, c *call, f listFlags, o op.Op[In, []Row], in *In, q *op.Query, none string, show func(p *page, list []Row)) error {
	if err := f.data.check(c); err != nil {
		return err
	}
	if err := f.page.query(c, q); err != nil {
		return err
	}
	list, meta, err := client.Call(ctx, c.client, o, *in)
	if err != nil {
		return err
	}
	if f.data.wanted() {
		return f.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("%s", none)
	} else {
		show(p, list)
	}
	c.paged(p, meta.NextToken)
	return c.show(p)
}

// pageFlags are the flags for pagination.
type pageFlags struct {
	filter, token *string
	perPage       *int
}

// paging declares the flags for pagination. The server applies them.
func (f *flags) paging() pageFlags {
	return pageFlags{
		filter:  f.String("filter", "List only objects that match this `expression` over the fields shown by -json, such as 'Status == \"ready\"'."),
		token:   f.String("page-token", "The `token` of the page, as printed below the previous page."),
		perPage: f.Int("per-page", 0, "The `number` of rows per page. 0 is all."),
	}
}

// query copies the flags to a query.
func (f pageFlags) query(c *call, q *op.Query) error {
	if *f.perPage < 0 || *f.perPage > op.MaxPage {
		return c.usagef("flag -per-page must be between 0 and %[2]d, got %[1]d", *f.perPage, op.MaxPage)
	}
	q.Filter, q.NextToken, q.PerPage = *f.filter, *f.token, int32(*f.perPage)
	return nil
}
