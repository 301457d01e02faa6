package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"berth"
	"berth/internal/agent/files"
	"berth/internal/saferoot"
	"berth/op"
)

// serveFiles answers what people ask about the files of allocations.
func (a *Agent) serveFiles(s *serving) {
	onCall(s, op.AgentListFiles, func(_ context.Context, q *op.FileQuery) (*op.Files, error) {
		dir, _, err := a.dirOf(q.AllocID)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		list, err := files.List(dir, q.Path)
		return &op.Files{List: list}, err
	})
	onCall(s, op.AgentStatFile, func(_ context.Context, q *op.FileQuery) (*op.FileInfo, error) {
		dir, _, err := a.dirOf(q.AllocID)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return files.Stat(dir, q.Path)
	})
	onOpen(s, op.AgentReadFile, func(ctx context.Context, q *op.FileSection, from op.Incoming) error {
		dir, ended, err := a.dirOf(q.AllocID)
		if err != nil {
			return err
		}
		defer dir.Close()
		return unlessOver(ctx, files.Stream(ctx, dir, q, ended, func(f *op.StreamFrame) error { return sendJSON(from, f) }))
	})
}

// dirOf opens the directory of an allocation of this node. ended reports whether
// its tasks have.
func (a *Agent) dirOf(id string) (dir *saferoot.Root, ended func() bool, err error) {
	al, runner, err := a.find(id)
	if err != nil {
		return nil, nil, err
	}
	dir, err = a.dirs.Sub(al.ID.String())
	if errors.Is(err, fs.ErrNotExist) {
		if runner != nil && !runner.Ended() {
			return nil, nil, berth.Errorf(berth.NotFound, "allocation %s has no directory yet: it has just been placed", al.ID)
		}
		return nil, nil, berth.Errorf(berth.NotFound, "the directory of allocation %s is gone: it ended, and its node has cleared it away", al.ID)
	}
	return dir, func() bool { return runner == nil || runner.Ended() }, err
}

// sendJSON sends a message of a call as JSON.
func sendJSON(to op.Incoming, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return to.Send(b)
}
