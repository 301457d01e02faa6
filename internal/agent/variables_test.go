package agent

import (
	"cmp"
	"context"
	"sync"
	"time"

	"berth/op"
)

// variables are the servers' variables: each has the same items.
type variables struct {
	mu      sync.Mutex
	items   map[string]string
	index   uint64
	changed chan struct{}
	given   int // answers
	waiting int // calls that wait for a change of what there is now
}

// put changes the items, which are keys and values in turn.
func (v *variables) put(items ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.items = map[string]string{}
	for i := 0; i < len(items); i += 2 {
		v.items[items[i]] = items[i+1]
	}
	v.index++
	v.waiting = 0
	if v.changed != nil {
		close(v.changed)
	}
	v.changed = make(chan struct{})
}

// count returns how many answers were given, and how many calls wait.
func (v *variables) count() (given, waiting int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.given, v.waiting
}

// Wants answers as servers do.
func (v *variables) Wants(ctx context.Context, in *op.WantsQuery) (*op.WantsAnswer, error) {
	late := time.After(cmp.Or(in.MaxQueryTime, time.Minute))
	for over := false; ; {
		v.mu.Lock()
		if v.index > in.MinQueryIndex || over {
			out := &op.WantsAnswer{}
			out.Index = v.index
			for _, w := range in.Wants {
				x := op.Wanted{Variables: []op.Variable{{VariableStub: op.VariableStub{Path: w.Name}, Items: v.items}}}
				out.Values = append(out.Values, x)
			}
			v.given++
			v.mu.Unlock()
			return out, nil
		}
		at, changed := v.index, v.changed
		v.waiting++
		v.mu.Unlock()
		select {
		case <-changed:
		case <-late:
			over = true
		case <-ctx.Done():
		}
		v.mu.Lock()
		if v.index == at {
			v.waiting--
		}
		v.mu.Unlock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
