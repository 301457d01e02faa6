package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"berth"
	"berth/internal/wire"
	"berth/op"
)

// serves lets the agent of an allocation register an instance of a service, at
// a port of its node.
func (c *cluster) serves(alloc, service, label, port string, tags []string) error {
	a := c.alloc(alloc)
	if a == nil {
		return fmt.Errorf("there is no allocation %s", alloc)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	n := c.node(a.NodeID)
	in := &op.UpsertServices{Write: op.Write{AuthToken: n.SecretID}, Services: []*berth.ServiceRegistration{{
		ID:          fmt.Sprintf("_nomad-task-%s-%s-%s-%s", a.ID, a.Group.Tasks[0].Name, service, label),
		ServiceName: service, Namespace: a.Job.Namespace, NodeID: n.ID, JobID: a.Job.ID, AllocID: a.ID, Address: "10.0.0.1", Port: number, Tags: tags,
	}}}
	return n.session.Call(context.Background(), op.ServiceUpsert.RPC, in, &op.WriteAnswer{})
}

// checks makes the agent of an allocation report the checks of its services, a
// list as JSON.
func (c *cluster) checks(alloc, text string) error {
	a := c.alloc(alloc)
	if a == nil {
		return fmt.Errorf("there is no allocation %s", alloc)
	}
	var list []op.CheckStatus
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return err
	}
	byID := map[string]op.CheckStatus{}
	for _, s := range list {
		byID[s.ID] = s
	}
	n := c.node(a.NodeID)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checks[a.ID.String()] = byID
	return nil
}

// checked answers how the checks of an allocation go, as an agent does.
func (n *simNode) checked(_ context.Context, call *wire.Call) (any, error) {
	var in op.AllocRef
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return &op.Checks{Results: n.checks[in.AllocID]}, nil
}
