package api

import (
	"strings"

	"berth"
	"berth/internal/quota"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// quotas registers the operations on quotas.
func (s *Server) quotas() {
	readList(s, op.ListQuotas, listQuotas)
	read(s, op.ReadQuota, readQuota)
	write(s, op.CreateQuota, s.writeQuota)
	write(s, op.UpdateQuota, s.writeQuota)
	write(s, op.RemoveQuota, removeQuota)
	readList(s, op.ListQuotaUsages, listQuotaUsages)
	read(s, op.ReadQuotaUsage, readQuotaUsage)
}

// listQuotas returns the quotas whose names begin with the prefix, in order of
// name.
func listQuotas(r *Read, _ *op.Query) ([]*berth.Quota, error) {
	r.Table(state.Quotas)
	l := scanned(r.Query, r.Quotas(), byID(func(q *berth.Quota) string { return q.Name }))
	return page(r, l, func(q *berth.Quota) bool { return strings.HasPrefix(q.Name, r.Query.Prefix) }, func(q *berth.Quota) *berth.Quota { return q })
}

// namedQuota returns the quota that a request names.
func (r *Read) namedQuota(name string) (*berth.Quota, error) {
	q := r.Quota(name)
	if q == nil {
		return nil, berth.Errorf(berth.NotFound, "quota not found: %s", berth.Clip(name, 64))
	}
	return q, nil
}

// readQuota returns one quota.
func readQuota(r *Read, in *op.QuotaRef) (*berth.Quota, error) {
	r.Table(state.Quotas)
	q, err := r.namedQuota(in.QuotaName)
	if err != nil {
		return nil, err
	}
	r.At(q.ModifyIndex, state.OnTable(state.Quotas))
	return q, nil
}

// writeQuota decides that a quota is created or changed. Path and body must name
// the same.
func (s *Server) writeQuota(w *Write, in *op.WriteQuota) (ch Change[op.WriteAnswer], err error) {
	q := in.Quota
	switch {
	case q.Name == "":
		q.Name = in.QuotaName
	case in.QuotaName != "" && in.QuotaName != q.Name:
		return ch, berth.Errorf(berth.Invalid, "Name: %q in the body differs from %q in the path", berth.Clip(q.Name, 64), berth.Clip(in.QuotaName, 64))
	}
	if err := validate.Quota(&q); err != nil { // Apply checks it as well; this keeps it out of the log
		return ch, err
	}
	return propose[op.WriteAnswer](&state.UpsertQuotas{Quotas: []*berth.Quota{&q}, Region: w.Region}, nil), nil
}

// removeQuota decides that a quota is deleted. Apply refuses it while a namespace
// names it.
func removeQuota(_ *Write, in *op.DeleteQuota) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteQuotas{Names: []string{in.QuotaName}}, nil), nil
}

// listQuotaUsages returns what is used of the quotas whose names begin with the
// prefix.
func listQuotaUsages(r *Read, _ *op.Query) ([]*berth.QuotaUsage, error) {
	r.At(max(r.LastChange(state.Quotas), r.LastChange(state.QuotaUsages)), state.OnTable(state.Quotas), state.OnTable(state.QuotaUsages))
	l := scanned(r.Query, r.Quotas(), byID(func(q *berth.Quota) string { return q.Name }))
	return page(r, l, func(q *berth.Quota) bool { return strings.HasPrefix(q.Name, r.Query.Prefix) }, func(q *berth.Quota) *berth.QuotaUsage { return usageView(r.Snapshot, q) })
}

// readQuotaUsage returns what is used of one quota.
func readQuotaUsage(r *Read, in *op.QuotaRef) (*berth.QuotaUsage, error) {
	r.At(max(r.LastChange(state.Quotas), r.LastChange(state.QuotaUsages)), state.OnTable(state.Quotas), state.OnTable(state.QuotaUsages))
	q, err := r.namedQuota(in.QuotaName)
	if err != nil {
		return nil, err
	}
	v := usageView(r.Snapshot, q)
	r.At(v.ModifyIndex, state.OnTable(state.Quotas), state.OnTable(state.QuotaUsages))
	return v, nil
}

// usageView shows what is used of a quota, in the form of its limits.
func usageView(s *state.Snapshot, q *berth.Quota) *berth.QuotaUsage {
	u := s.QuotaUsage(q.Name)
	v := &berth.QuotaUsage{Name: q.Name, Used: map[string]*berth.QuotaLimit{}, CreateIndex: q.CreateIndex, ModifyIndex: max(q.ModifyIndex, u.Index)}
	here := q.Here()
	if here == nil {
		return v
	}
	all := &berth.QuotaResources{Storage: &berth.QuotaStorage{}}
	l := &berth.QuotaLimit{Region: q.Region, RegionLimit: all, Hash: here.Hash}
	v.Used[here.Key()] = l
	for i, line := range u.Lines {
		r, used := all, int(u.Used[i])
		if line.Pool != "" {
			if n := len(all.NodePools); n == 0 || all.NodePools[n-1].NodePool != line.Pool { // lines are in order of pools
				all.NodePools = append(all.NodePools, &berth.QuotaResources{NodePool: line.Pool})
			}
			r = all.NodePools[len(all.NodePools)-1]
		}
		switch line.Kind {
		case quota.CPU:
			r.CPU = &used
		case quota.Cores:
			r.Cores = &used
		case quota.Memory:
			r.MemoryMB = &used
		case quota.MemoryMax:
			r.MemoryMaxMB = &used
		case quota.Allocations:
			r.Allocations = &used
		case quota.Jobs:
			r.Jobs = &used
		case quota.Device:
			r.Devices = append(r.Devices, &berth.RequestedDevice{Name: line.Device, Count: uint64(max(used, 0))})
		case quota.Variables:
			whole := (used + 1<<20 - 1) >> 20 // a begun MiB counts as one, so that what is used never looks like nothing
			r.Storage.VariablesMB, l.VariablesLimit = whole, &whole
		}
	}
	return v
}
