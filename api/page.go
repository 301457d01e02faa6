package api

import (
	"encoding/json"
	"errors"
	"iter"

	"berth"

	"github.com/hashicorp/go-bexpr"
)

// page returns the rows that belong in one answer, as views: those that keep
// accepts and the caller's filter, from the caller's token on, as many as a
// page holds. key is a row's full place in the order of the list, so a page
// never loses or repeats a row that stays.
func page[Row, View any](r *Read, rows iter.Seq[*Row], key func(*Row) string, keep func(*Row) bool, view func(*Row) View) ([]View, error) {
	wanted, err := newFilter(r.Query.Filter)
	if err != nil {
		return nil, err
	}
	out := []View{}
	started := r.Query.NextToken == ""
	for row := range rows {
		if !started {
			if key(row) != r.Query.NextToken {
				continue
			}
			started = true
		}
		if keep != nil && !keep(row) {
			continue
		}
		v := view(row)
		ok, err := wanted.accepts(v)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if n := int(r.Query.PerPage); n > 0 && len(out) == n {
			r.next = key(row)
			return out, nil
		}
		out = append(out, v)
	}
	if !started {
		return nil, berth.Errorf(berth.Invalid, "next_token: %q is not on this list any more; begin again", clip(r.Query.NextToken))
	}
	return out, nil
}

// filter is an expression in go-bexpr's language over the fields of a view.
type filter struct{ eval *bexpr.Evaluator }

// maxFilter bounds the text of a filter (S-26).
const maxFilter = 2048

func newFilter(text string) (filter, error) {
	if text == "" {
		return filter{}, nil
	}
	if len(text) > maxFilter {
		return filter{}, berth.Errorf(berth.Invalid, "filter: %d bytes are too long; allowed are %d", len(text), maxFilter)
	}
	e, err := bexpr.CreateEvaluator(text)
	if err != nil {
		return filter{}, berth.Errorf(berth.Invalid, "failed to read filter expression: %w", err)
	}
	return filter{e}, nil
}

// accepts says whether a view meets the expression, which sees it as the API
// shows it.
func (f filter) accepts(v any) (bool, error) {
	if f.eval == nil {
		return true, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	var shown map[string]any
	if err := json.Unmarshal(text, &shown); err != nil {
		return false, err
	}
	ok, err := f.eval.Evaluate(shown)
	if err != nil {
		return false, berth.Errorf(berth.Invalid, "filter: %w", err)
	}
	return ok, nil
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
