package cli

import (
	"context"

	"berth/client"
	"berth/op"
)

// listFlags are the flags of lists that can be long.
type listFlags struct {
	data dataFlags
	page pageFlags
}

func (f *flags) list() listFlags { return listFlags{f.data(), f.paging()} }

// showList answers a command that lists what o reads: to programs as they asked, to
// people by show, or by the words for none.
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

// pageFlags are the flags of long lists.
type pageFlags struct {
	filter, token *string
	perPage       *int
}

func (f *flags) paging() pageFlags {
	return pageFlags{
		filter:  f.String("filter", "Only those that meet this `expression` over the fields that -json shows, such as 'Status == \"ready\"'."),
		token:   f.String("page-token", "The `token` that the page before named."),
		perPage: f.Int("per-page", 0, "The `number` of rows on a page; 0 is all."),
	}
}

// query puts the flags into a query.
func (f pageFlags) query(c *call, q *op.Query) error {
	if *f.perPage < 0 || *f.perPage > op.MaxPage {
		return c.usagef("the flag -per-page: %d is out of range; allowed are 0 to %d", *f.perPage, op.MaxPage)
	}
	q.Filter, q.NextToken, q.PerPage = *f.filter, *f.token, int32(*f.perPage)
	return nil
}
