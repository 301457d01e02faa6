package api

import (
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/schedule/explain"
	"berth/op"
)

// whatIf registers the trial of a failure of nodes.
func (s *Server) whatIf() {
	read(s, op.TryWhatIf, func(r *Read, in *op.WhatIfQuery) (op.WhatIf, error) {
		if in.Node == "" && in.Rack == "" && in.Datacenter == "" && in.Pool == "" {
			return op.WhatIf{}, berth.Errorf(berth.Invalid, "node, rack, datacenter, pool: at least one must say which nodes fail")
		}
		r.anything()
		var nodes []*berth.Node
		for n := range r.Nodes() {
			if (in.Node == "" || in.Node == n.ID.String() || in.Node == n.Name) && (in.Rack == "" || in.Rack == n.Meta["rack"]) &&
				(in.Datacenter == "" || in.Datacenter == n.Datacenter) && (in.Pool == "" || in.Pool == n.NodePool) {
				nodes = append(nodes, n)
			}
		}
		if len(nodes) == 0 {
			return op.WhatIf{}, berth.Errorf(berth.NotFound, "no node has this name, rack, datacenter and pool")
		}
		out, err := explain.WhatIf(r.Snapshot, nodes, func(namespace string) bool { return r.may(acl.ReadJob, namespace) == nil }, time.Now())
		if err != nil {
			return op.WhatIf{}, err
		}
		return *out, nil
	})
}
