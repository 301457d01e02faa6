package api

import (
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// pools registers the operations on node pools, and the one on the eligibility
// of nodes.
func (s *Server) pools() {
	readList(s, op.ListPools, listPools)
	read(s, op.ReadPool, readPool)
	readList(s, op.PoolNodes, poolNodes)
	readList(s, op.PoolJobs, poolJobs)
	write(s, op.WritePool, writePool)
	write(s, op.UpdatePool, writePool)
	write(s, op.RemovePool, removePool)
	write(s, op.Eligibility, setEligibility)
}

// poolView shows a node pool; its duration is text, as in the requests.
func poolView(p *berth.NodePool) op.NodePool {
	return op.NodePool{NodePool: p, NodeIdentityTTL: p.NodeIdentityTTL.String()}
}

// listPools returns the node pools whose names begin with the prefix, in order
// of name.
func listPools(r *Read, _ *op.Query) ([]op.NodePool, error) {
	r.Table(state.NodePools)
	l := scanned(r.Query, r.NodePools(), byID(func(p *berth.NodePool) string { return p.Name }))
	return page(r, l, func(p *berth.NodePool) bool {
		return strings.HasPrefix(p.Name, r.Query.Prefix) && r.may(acl.NodePoolRead, p.Name) == nil
	}, poolView)
}

// pool returns the node pool that a request names.
func (r *Read) pool(name string) (*berth.NodePool, error) {
	p := r.NodePool(name)
	if p == nil {
		return nil, berth.Errorf(berth.NotFound, "node pool not found: %s", berth.Clip(name, 64))
	}
	return p, nil
}

// readPool returns one node pool.
func readPool(r *Read, in *op.PoolRef) (op.NodePool, error) {
	p, err := r.readable(in.PoolName)
	if err != nil {
		return op.NodePool{}, err
	}
	r.At(p.ModifyIndex, state.OnNodePool(p.Name))
	return poolView(p), nil
}

// readable looks for a pool that a list is about, and whether the caller may
// see it as well as what the operation lists.
func (r *Read) readable(name string) (*berth.NodePool, error) {
	if err := r.may(acl.NodePoolRead, name); err != nil {
		return nil, err
	}
	return r.pool(name)
}

// poolNodes returns the nodes of a pool. The pool "all" has every node.
func poolNodes(r *Read, in *op.PoolNodesQuery) ([]op.NodeStub, error) {
	p, err := r.readable(in.PoolName)
	if err != nil {
		return nil, err
	}
	return nodesOf(r, func(n *berth.Node) bool { return berth.InPool(n.NodePool, p.Name) }, in.Resources, in.OS, p.ModifyIndex, state.OnNodePool(p.Name))
}

// poolJobs returns the jobs that run in a pool and that the caller may see.
func poolJobs(r *Read, in *op.PoolJobsQuery) ([]op.JobStub, error) {
	p, err := r.readable(in.PoolName)
	if err != nil {
		return nil, err
	}
	return jobsOf(r, op.PoolJobs.Need, func(j *berth.Job) bool { return j.NodePool == p.Name }, in.Meta, p.ModifyIndex, state.OnNodePool(p.Name))
}

// writePool decides that a pool is created or changed. Path and body must name
// the same.
func writePool(w *Write, in *op.WriteNodePool) (ch Change[op.WriteAnswer], err error) {
	p := in.NodePool
	switch {
	case p.Name == "":
		p.Name = in.PoolName
	case in.PoolName != "" && in.PoolName != p.Name:
		return ch, berth.Errorf(berth.Invalid, "Name: %q in the body differs from %q in the path", berth.Clip(p.Name, 64), berth.Clip(in.PoolName, 64))
	}
	if err := w.may(acl.NodePoolWrite, p.Name); err != nil {
		return ch, err
	}
	if err := validate.NodePool(&p); err != nil { // Apply checks it as well; this keeps it out of the log
		return ch, err
	}
	return propose[op.WriteAnswer](&state.UpsertNodePools{Pools: []*berth.NodePool{&p}}, nil), nil
}

// removePool decides that a pool is deleted. Apply refuses it while nodes or
// jobs are in it, and for the built-in pools.
func removePool(w *Write, in *op.DeleteNodePool) (ch Change[op.WriteAnswer], err error) {
	if err := w.may(acl.NodePoolDelete, in.PoolName); err != nil {
		return ch, err
	}
	return propose[op.WriteAnswer](&state.DeleteNodePools{Names: []string{in.PoolName}}, nil), nil
}

// setEligibility decides whether a node takes new allocations. It leaves those
// that run on it alone.
func setEligibility(w *Write, in *op.SetEligibility) (ch Change[op.EligibilitySet], err error) {
	id, err := berth.ParseID[berth.Node](in.NodeID)
	if err != nil {
		return ch, err
	}
	c := &state.SetNodeEligibility{ID: id, Eligibility: in.Eligibility, Now: w.Now.UnixNano()}
	w.random(c.Seed[:])
	return propose(c, func(o *Outcome) op.EligibilitySet { return eligibilitySet(o, c.Evals) }), nil
}
