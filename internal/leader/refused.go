package leader

import (
	"context"
	"maps"
	"sync"

	"berth"
	"berth/internal/state"
)

// Refusals counts by code the decisions of leaders, workers and agents about
// stream jobs and deletions that the log refused. They came too late. Requests
// of users that are refused are not counted.
type Refusals struct {
	mu    sync.Mutex
	codes map[berth.Code]uint64
}

// Counting returns a log that counts its refusals in r.
func (r *Refusals) Counting(log state.Log) state.Log { return &counting{log, r} }

// Count returns how often each code occurred.
func (r *Refusals) Count() map[berth.Code]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.codes)
}

// note counts the refusals among results by their code. Commands for which a
// refusal is normal are not counted.
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

// Note counts a refusal that happened before the log.
func (r *Refusals) Note(code berth.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.codes == nil {
		r.codes = map[berth.Code]uint64{}
	}
	r.codes[code]++
}

// counting is a log that counts the refusals of the commands staged in it.
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
