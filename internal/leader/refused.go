package leader

import (
	"context"
	"maps"
	"sync"

	"berth"
	"berth/internal/state"
)

// Refusals counts what the log refused of what leaders, workers and agents
// decided about stream jobs and deletions, by code: of it all, what came too
// late. What users want and do not get is not counted.
type Refusals struct {
	mu    sync.Mutex
	codes map[berth.Code]uint64
}

// Counting returns the log, of which refusals are counted here.
func (r *Refusals) Counting(log state.Log) state.Log { return &counting{log, r} }

// Count returns how often each code was given.
func (r *Refusals) Count() map[berth.Code]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.codes)
}

func (r *Refusals) note(cmds []state.Command, results []state.Result) {
	for i := range results {
		if results[i].Err == nil || !state.NumberOf(cmds[i]).Counted() {
			continue
		}
		if code := berth.CodeOf(results[i].Err); code != "" {
			r.Note(code)
		}
	}
}

// Note counts what was refused with a code before it came to the log.
func (r *Refusals) Note(code berth.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.codes == nil {
		r.codes = map[berth.Code]uint64{}
	}
	r.codes[code]++
}

type counting struct {
	state.Log
	refusals *Refusals
}

// Propose implements state.Log.
func (c *counting) Propose(ctx context.Context, cmds ...state.Command) ([]state.Result, error) {
	results, err := c.Log.Propose(ctx, cmds...)
	c.refusals.note(cmds, results)
	return results, err
}

// Stage implements state.Log.
func (c *counting) Stage(cmds ...state.Command) (*state.Pending, error) {
	p, err := c.Log.Stage(cmds...)
	if err == nil {
		c.refusals.note(cmds, p.Results)
	}
	return p, err
}
