package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/op"

	"github.com/hashicorp/go-bexpr"
	"github.com/mitchellh/pointerstructure"
)

// order is how a list is ordered, so that a page can begin where the one
// before it ended.
type order[Row any] struct {
	// key is the token of a page that begins with the row: its full place.
	key func(*Row) string
	// reached reports whether the row stands at or after the place of a token,
	// whose own row may be gone. If the token cannot tell several rows apart, it
	// reaches all of them.
	reached func(row *Row, token string) bool
}

// byID is the order of lists that are sorted by ID.
func byID[Row any](id func(*Row) string) order[Row] {
	return order[Row]{id, func(row *Row, token string) bool { return id(row) >= token }}
}

// byTime is the order of lists that are sorted by creation.
func byTime[Row any](q *op.Query, at func(*Row) (index uint64, id string)) order[Row] {
	return order[Row]{
		func(row *Row) string {
			index, id := at(row)
			return fmt.Sprintf("%d.%s", index, id)
		},
		func(row *Row, token string) bool {
			index, _ := at(row)
			text, _, _ := strings.Cut(token, ".")
			place, _ := strconv.ParseUint(text, 10, 64)
			return index >= place && !q.Reverse || index <= place && q.Reverse
		},
	}
}

// turned returns rows in the order that the query asks for.
func turned[Row any](q *op.Query, rows iter.Seq[*Row], o order[Row]) (iter.Seq[*Row], order[Row]) {
	if !q.Reverse {
		return rows, o
	}
	all := slices.Collect(rows)
	slices.Reverse(all)
	return slices.Values(all), order[Row]{o.key, func(row *Row, token string) bool { return !o.reached(row, token) || o.key(row) == token }}
}

// from returns the rows from a token on. A row that stays is neither lost nor
// repeated, but for rows that were created together with one that is gone:
// those may come twice.
func from[Row any](rows iter.Seq[*Row], o order[Row], token string) iter.Seq[*Row] {
	if token == "" {
		return rows
	}
	at := o.reached
	for row := range rows {
		if o.key(row) == token {
			at = func(row *Row, token string) bool { return o.key(row) == token }
			break
		}
	}
	return func(yield func(*Row) bool) {
		started := false
		for row := range rows {
			if started = started || at(row, token); started && !yield(row) {
				return
			}
		}
	}
}

// page returns the rows that belong in one answer, as views: those that keep
// accepts and the caller's filter, from the caller's token on, as many as a
// page holds.
func page[Row, View any](r *Read, rows iter.Seq[*Row], o order[Row], keep func(*Row) bool, view func(*Row) View) ([]View, error) {
	wanted, err := newFilter(r.Query.Filter)
	if err != nil {
		return nil, err
	}
	out := []View{}
	for row := range from(rows, o, r.Query.NextToken) {
		if keep != nil && !keep(row) {
			continue
		}
		v := view(row)
		// The filter comes after the rights: it must not reveal rows by the
		// errors that it has on them.
		ok, err := wanted.accepts(v)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		// The row after the page is found and not returned: its place is the
		// token of the next page.
		if n := int(r.Query.PerPage); n > 0 && len(out) == n {
			r.next = o.key(row)
			return out, nil
		}
		out = append(out, v)
	}
	return out, nil
}

// filter is an expression in go-bexpr's language over the fields of a view.
type filter struct{ eval *bexpr.Evaluator }

// Limits of filters (S-26): of the text, and of the steps that reading it
// takes, which grow fast with parentheses within parentheses.
const (
	maxFilter = 2048
	maxSteps  = 500_000
)

// newFilter parses an expression; the empty one accepts everything.
func newFilter(text string) (filter, error) {
	if text == "" {
		return filter{}, nil
	}
	if len(text) > maxFilter {
		return filter{}, berth.Errorf(berth.Invalid, "filter: %d bytes is too long: the limit is %d", len(text), maxFilter)
	}
	e, err := bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(maxSteps))
	if err != nil {
		return filter{}, berth.Errorf(berth.Invalid, "failed to read filter expression: %w", err)
	}
	return filter{e}, nil
}

// accepts reports whether a view matches the expression, which sees it as the API
// shows it.
func (f filter) accepts(v any) (bool, error) {
	if f.eval == nil {
		return true, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	// Through JSON the filter sees the names and values that callers see.
	var shown map[string]any
	if err := json.Unmarshal(text, &shown); err != nil {
		return false, err
	}
	// A field that is null counts as an empty block, so that a filter on its
	// parts does not fail.
	for name, v := range shown {
		if v == nil {
			v = map[string]any{}
		}
		shown[name] = present(v)
	}
	ok, err := f.eval.Evaluate(shown)
	if errors.Is(err, pointerstructure.ErrNotFound) && !strings.Contains(err.Error(), "at part 0") {
		return false, nil // the view has the field, but this row has nothing below it
	}
	if err != nil {
		return false, berth.Errorf(berth.Invalid, "filter: %w", err)
	}
	return ok, nil
}

// present removes nulls from a value: a filter on a part of a block must not
// match a row without the block, rather than fail on it.
func present(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if x == nil {
				delete(v, name)
			} else {
				v[name] = present(x)
			}
		}
	case []any:
		for i, x := range v {
			v[i] = present(x)
		}
	}
	return v
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
