package api

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/filter"
	"berth/internal/state"
	"berth/op"
)

// listing is a list that can be read from any row on, so that a page begins
// where the one before it ended.
type listing[Row any] struct {
	// from returns the rows from the place of a token on; "" is the beginning. A
	// row that stays is neither lost nor repeated, but for rows that were
	// created together with one that is gone: those may come twice.
	from func(token string) (iter.Seq[Row], error)
	// token is that of a page that begins with the row.
	token func(Row) string
	// source returns what the view of a row is made of, to find out if it is
	// still as it was. nil: a row is encoded each time.
	source func(Row) source
	// seen are what a filter sees of a row. nil: its view.
	seen []seen[Row]
}

// seen is a struct that a filter sees of a row.
type seen[Row any] struct {
	filter.Part
	of func(Row) any
}

// sees returns a part of what a filter sees of a row: the fields of V, but for
// some that another part has.
func sees[V, Row any](of func(Row) V, without ...string) seen[Row] {
	return seen[Row]{filter.Part{Type: reflect.TypeFor[V](), Without: without}, func(row Row) any { return of(row) }}
}

// order is how the rows of a list are ordered that is read from its beginning to
// find a page.
type order[Row any] struct {
	// key is the token of a page that begins with the row: its full place.
	key func(Row) string
	// reached reports whether the row stands at or after the place of a token,
	// whose own row may be gone. If the token cannot tell several rows apart, it
	// reaches all of them.
	reached func(row Row, token string) bool
}

// byID is the order of lists that are sorted by ID.
func byID[Row any](id func(Row) string) order[Row] {
	return order[Row]{id, func(row Row, token string) bool { return id(row) >= token }}
}

// scanned returns a list that is read from its beginning for every page: one that
// is short, or made for the request.
func scanned[Row any](q *op.Query, rows iter.Seq[Row], o order[Row]) listing[Row] {
	reached := o.reached
	if q.Reverse {
		all := slices.Collect(rows)
		slices.Reverse(all)
		rows = slices.Values(all)
		reached = func(row Row, token string) bool { return !o.reached(row, token) || o.key(row) == token }
	}
	return listing[Row]{token: o.key, from: func(token string) (iter.Seq[Row], error) {
		if token == "" {
			return rows, nil
		}
		at := reached
		for row := range rows {
			if o.key(row) == token {
				at = func(row Row, token string) bool { return o.key(row) == token }
				break
			}
		}
		return func(yield func(Row) bool) {
			started := false
			for row := range rows {
				if started = started || at(row, token); started && !yield(row) {
					return
				}
			}
		}, nil
	}}
}

// byRange returns a list in order of ID: of the rows whose IDs have the prefix
// that the query asks for.
func byRange[T any](q *op.Query, rows func(state.Range[T]) iter.Seq[*T], id func(*T) berth.ID[T]) (l listing[*T], err error) {
	in := state.Range[T]{Back: q.Reverse}
	if q.Prefix != "" {
		if in.Prefix, err = berth.ParseIDPrefix(q.Prefix); err != nil {
			return l, err
		}
	}
	l.token = func(row *T) string { return id(row).String() }
	l.from = func(token string) (iter.Seq[*T], error) {
		if in.From, err = berth.ParseID[T](token); err != nil {
			return nil, badToken(token)
		}
		return rows(in), nil
	}
	return l, nil
}

// byTime returns a list in order of creation. place returns the index at which a
// row was created, and its ID.
func byTime[T any](q *op.Query, rows func(index uint64, id berth.ID[T], back bool) iter.Seq[*T], place func(*T) (uint64, berth.ID[T])) listing[*T] {
	return listing[*T]{
		token: func(row *T) string {
			index, id := place(row)
			return fmt.Sprintf("%d.%s", index, id)
		},
		from: func(token string) (iter.Seq[*T], error) {
			if token == "" {
				return rows(0, berth.ID[T]{}, q.Reverse), nil
			}
			first, rest, _ := strings.Cut(token, ".")
			index, err := strconv.ParseUint(first, 10, 64)
			id, bad := berth.ParseID[T](rest)
			if err != nil || bad != nil {
				return nil, badToken(token)
			}
			return rows(index, id, q.Reverse), nil
		},
	}
}

// badToken is the error of a token that no page gave out.
func badToken(token string) error {
	return berth.Errorf(berth.Invalid, "next_token: %q is not a token of this list", berth.Clip(token, 64))
}

// page returns the rows that belong in one answer, as views: those that keep
// accepts and the caller's filter, from the caller's token on, as many as a
// page holds. It comes after At: a caller who waits gets no rows.
func page[Row, View any](r *Read, l listing[Row], keep func(Row) bool, view func(Row) View) ([]View, error) {
	out := []View{}
	wanted, err := rowFilter(r.Query.Filter, l.seen, view)
	if err != nil {
		return nil, err
	}
	rows, err := l.from(r.Query.NextToken)
	if err != nil || r.Waits() {
		return out, err
	}
	n := 0
	for row := range rows {
		// The filter comes after the rights: it must not reveal rows by the
		// errors that it has on them.
		if keep != nil && !keep(row) {
			continue
		}
		ok, err := wanted(row)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		// The row after the page is found and not returned: its place is the
		// token of the next page.
		if most := int(r.Query.PerPage); most > 0 && n == most {
			r.next = l.token(row)
			break
		}
		n++
		if r.rows == nil || l.source == nil {
			out = append(out, view(row))
		} else if err := r.rows.add(l.source(row), func() any { return view(row) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// noPages begins the error for a filter that cannot be evaluated, as in Nomad:
// clients compare it.
const noPages = "failed to create result paginator"

// rowFilter returns what reports whether a row meets the caller's expression; the
// empty one accepts every row.
func rowFilter[Row, View any](text string, parts []seen[Row], view func(Row) View) (func(Row) (bool, error), error) {
	if text == "" {
		return func(Row) (bool, error) { return true, nil }, nil
	}
	if parts == nil {
		parts = []seen[Row]{sees(view)}
	}
	types := make([]filter.Part, len(parts))
	for i := range parts {
		types[i] = parts[i].Part
	}
	f, err := filter.Compile(text, types...)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, noPages+": %w", err)
	}
	return func(row Row) (bool, error) {
		ok, err := f.Match(func(i int) any { return parts[i].of(row) })
		if err != nil {
			return false, berth.Errorf(berth.Invalid, "%w", err)
		}
		return ok, nil
	}, nil
}

// problems returns the single problems of an error, for callers that list them.
func problems(err error) []string {
	if ps, ok := errors.AsType[berth.Problems](err); ok {
		out := make([]string, len(ps))
		for i, p := range ps {
			out[i] = p.String()
		}
		return out
	}
	return []string{err.Error()}
}
