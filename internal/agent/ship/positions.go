package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"berth/internal/agent/record"
	"berth/internal/durable"
)

// Key names a stream on its way to a sink.
type Key struct{ Sink, AllocID, Task, Stream string }

// Position is how far a stream has been sent: to an offset in a file, named as
// in frames. The zero value is its start.
type Position struct {
	File   string
	Offset int64
}

// Positions holds how far sinks are, in a file. It is safe for concurrent use.
type Positions struct {
	path string

	mu      sync.Mutex
	at      map[Key]Position
	changed bool
}

// saved is a position as the file has it.
type saved struct {
	Key
	Position
}

const positionsRecord = "log positions"

// saveEvery is how often positions are written. What was sent since is sent again
// after a crash.
const saveEvery = time.Second

// OpenPositions reads the positions from a file, none if it is not there. A file
// that is damaged is an error.
func OpenPositions(path string) (*Positions, error) {
	p := &Positions{path: path, at: map[Key]Position{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("log positions: %w", err)
	}
	what, body, _, err := record.Next(b)
	if err == nil && what != positionsRecord {
		err = fmt.Errorf("holds a record of %q", what)
	}
	var all []saved
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("log positions: %s: %w", path, err)
	}
	for _, s := range all {
		p.at[s.Key] = s.Position
	}
	return p, nil
}

// Get returns how far a stream has been sent.
func (p *Positions) Get(k Key) Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at[k]
}

// set records how far a stream has been sent.
func (p *Positions) set(k Key, at Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[k], p.changed = at, true
}

// Forget removes the streams of allocations that keep does not name.
func (p *Positions) Forget(keep func(allocID string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.at {
		if !keep(k.AllocID) {
			delete(p.at, k)
			p.changed = true
		}
	}
}

// Run writes what changes to the file until ctx ends, and once more then. What
// cannot be written is written later.
func (p *Positions) Run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-tick.C:
			err := p.Save()
			if err != nil && !failed {
				log.Warn("positions of log sinks cannot be saved: lines may be sent again after a restart", "error", err)
			}
			failed = err != nil
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.Save())
		}
	}
}

// Save writes the positions, if they have changed.
func (p *Positions) Save() error {
	p.mu.Lock()
	if !p.changed {
		p.mu.Unlock()
		return nil
	}
	p.changed = false
	all := make([]saved, 0, len(p.at))
	for k, at := range p.at {
		all = append(all, saved{k, at})
	}
	p.mu.Unlock()
	b, err := record.Append(nil, positionsRecord, all)
	if err == nil {
		err = durable.Replace(p.path, b)
	}
	if err != nil {
		p.mu.Lock()
		p.changed = true
		p.mu.Unlock()
		return fmt.Errorf("log positions: %w", err)
	}
	return nil
}
