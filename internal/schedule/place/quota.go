package place

import "berth"

// quotaLacks returns what the quota lacks for one more instance, nothing if
// there is room.
func (r *round) quotaLacks() []string {
	if r.quota == nil || r.quota.Room(r.quotaAsk, 1) == 1 {
		return nil
	}
	return r.quota.Lacks(r.quotaAsk)
}

// countQuota counts an instance that was placed.
func (r *round) countQuota() {
	if r.quota != nil {
		r.quota.Add(r.quotaAsk, 1)
	}
}

// explainQuota explains why n instances cannot be placed for which the quota has
// no room, wherever there is capacity.
func (r *round) explainQuota(n int, lacks []string) (*berth.AllocMetric, *berth.Missed) {
	m := r.emptyMetric()
	m.NodesEvaluated, m.CoalescedFailures, m.QuotaExhausted = r.evaluated, n-1, lacks
	return m, &berth.Missed{Classes: map[string]bool{}, Quota: r.quota.Quota, QuotaOnly: true}
}
