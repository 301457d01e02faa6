package agent

import (
	"context"
	"maps"

	"berth"
	"berth/internal/agent/local"
	"berth/op"
)

// The metadata of the node: that of the configuration, and above it what was
// changed while an agent ran. Changes outlive the agent.

// mergedMeta returns the metadata that holds: static, with the changes.
func mergedMeta(static map[string]string, changes map[string]*string) map[string]string {
	out := maps.Clone(static)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range changes {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = *v
		}
	}
	return out
}

// changedMeta returns the changes after more of them. A key that was removed
// needs no mark if the configuration does not have it.
func changedMeta(static map[string]string, old, more map[string]*string) map[string]*string {
	out := maps.Clone(old)
	if out == nil {
		out = map[string]*string{}
	}
	for k, v := range more {
		if _, there := static[k]; v == nil && !there {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	return out
}

// serveMeta answers what people ask about the node's metadata.
func (a *Agent) serveMeta(s *serving) {
	onCall(s, op.AgentReadMeta, func(_ context.Context, q *op.NodeTarget) (*op.NodeMeta, error) {
		if err := a.isNode(q.NodeID); err != nil {
			return nil, err
		}
		a.metaTurn.Lock()
		defer a.metaTurn.Unlock()
		return a.metaView(), nil
	})
	onCall(s, op.AgentApplyMeta, a.applyMeta)
}

// applyMeta changes metadata, and has the node registered again if that makes a
// difference. It returns when the change is on disk.
func (a *Agent) applyMeta(_ context.Context, in *op.ChangeMeta) (*op.NodeMeta, error) {
	if err := a.isNode(in.NodeID); err != nil {
		return nil, err
	}
	if err := in.Check(); err != nil {
		return nil, err
	}
	a.metaTurn.Lock()
	defer a.metaTurn.Unlock()
	next := changedMeta(a.c.Meta, a.meta, in.Changes())
	if len(next) > op.MaxMetaKeys {
		return nil, berth.Errorf(berth.Invalid, "Meta: the node would have %d changed keys: the limit is %d", len(next), op.MaxMetaKeys)
	}
	if err := local.PutMeta(a.c.StateDir, next); err != nil {
		return nil, berth.Errorf(berth.Unavailable, "the metadata cannot be recorded: %w", err)
	}
	a.meta = next
	merged := mergedMeta(a.c.Meta, next)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !maps.Equal(merged, a.node.Meta) {
		n := *a.node
		n.Meta = merged
		a.renode(&n)
	}
	return a.metaView(), nil
}

// metaView returns the metadata as it is shown. The caller holds metaTurn.
func (a *Agent) metaView() *op.NodeMeta {
	return &op.NodeMeta{Meta: mergedMeta(a.c.Meta, a.meta), Dynamic: maps.Clone(a.meta), Static: mergedMeta(a.c.Meta, nil)}
}

// loadMeta reads the changes that an earlier agent recorded.
func (a *Agent) loadMeta() {
	meta, err := local.GetMeta(a.c.StateDir)
	if err != nil {
		a.log.Warn("the metadata that was changed while an earlier agent ran cannot be read", "error", err)
	}
	a.meta = meta
}

// isNode returns an error unless an ID is the agent's own; "" is.
func (a *Agent) isNode(id string) error {
	if id != "" && id != a.id.String() {
		return berth.Errorf(berth.NotFound, "node %s is not this one, %s", berth.Clip(id, 64), a.id)
	}
	return nil
}
