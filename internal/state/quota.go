package state

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"berth"
	"berth/internal/cow"
	"berth/internal/quota"
	"berth/internal/state/codec"
	"berth/internal/validate"
)

// Quotas limit what namespaces use. An allocation counts until its tasks have
// ended, as for the capacity of its node; a job of a user counts until it is
// stopped or gone. What is used is counted with every change, and from the rows
// again when a quota changes, when a namespace begins or ceases to name it, and
// when a state is loaded.

// quotaTable holds the quotas, and what is used of each.
type quotaTable struct {
	rows[berth.Quota]
	byName  cow.Tree[string]
	usage   cow.Vec[*quota.Usage] // by slot
	counted uint64                // index of the last change of any usage
}

// Quota returns the quota, or nil.
func (s *Snapshot) Quota(name string) *berth.Quota {
	return get(&s.quotas.rows, &s.quotas.byName, name)
}

// Quotas returns all quotas in order of name.
func (s *Snapshot) Quotas() iter.Seq[*berth.Quota] {
	return rowsOf(&s.quotas.rows, s.quotas.byName.All())
}

// QuotaUsage returns what is used of a quota, nil if there is no quota of that
// name.
func (s *Snapshot) QuotaUsage(name string) *quota.Usage {
	slot, ok := s.quotas.byName.First(name)
	if !ok {
		return nil
	}
	return s.quotas.usage.Get(slot)
}

// QuotaUsageOf returns what is used of a namespace's quota, nil if it has none.
func (s *Snapshot) QuotaUsageOf(namespace string) *quota.Usage {
	slot, ok := s.quotaOf(namespace)
	if !ok {
		return nil
	}
	return s.quotas.usage.Get(slot)
}

// quotaOf returns the slot of a namespace's quota; not ok if it has none.
func (s *Snapshot) quotaOf(namespace string) (slot uint32, ok bool) {
	if s.quotas.count == 0 { // as in most clusters
		return 0, false
	}
	n := s.Namespace(namespace)
	if n == nil || n.Quota == "" {
		return 0, false
	}
	return s.quotas.byName.First(n.Quota)
}

// usedBy returns what is used of a namespace's quota with the changes of the
// current command, which may be changed further; nil if it has none.
func (tx *Tx) usedBy(namespace string) *quota.Usage {
	slot, ok := tx.quotaOf(namespace)
	if !ok {
		return nil
	}
	u := tx.quotaCounts[slot]
	if u == nil {
		u = tx.quotas.usage.Get(slot).Clone()
		tx.setQuotaCount(slot, u)
	}
	return u
}

// setQuotaCount makes u what the current command counts for a quota.
func (tx *Tx) setQuotaCount(slot uint32, u *quota.Usage) {
	if tx.quotaCounts == nil {
		tx.quotaCounts = map[uint32]*quota.Usage{}
	}
	tx.quotaCounts[slot] = u
}

// storeQuotaCounts stores what a command counted for quotas.
func (tx *Tx) storeQuotaCounts() {
	for _, slot := range slices.Sorted(maps.Keys(tx.quotaCounts)) {
		u, old := tx.quotaCounts[slot], tx.quotas.usage.Get(slot)
		if old != nil && slices.Equal(old.Used, u.Used) && slices.Equal(old.Lines, u.Lines) {
			continue
		}
		u.Index = tx.Index
		freeze(u)
		tx.quotas.usage.Set(tx.edit, slot, u)
		tx.quotas.counted = tx.Index
		tx.note(QuotaUsages, anyOrNil(old), u)
	}
	clear(tx.quotaCounts)
}

// countQuota changes what is used of a namespace's quota from the allocation old,
// nil for a new one, to a.
func (tx *Tx) countQuota(old, a *berth.Alloc) {
	if tx.quotas.count == 0 {
		return
	}
	held, holds := old != nil && old.Occupies(), a.Occupies()
	if held == holds && (old == nil || old.Group == a.Group && old.Job == a.Job) {
		return
	}
	u := tx.usedBy(a.Job.Namespace)
	if u == nil {
		return
	}
	if held {
		u.Add(u.Of(old.Job, old.Group), -1)
	}
	if holds {
		u.Add(u.Of(a.Job, a.Group), 1)
	}
}

// countsJob reports whether a job counts for quotas: a user registered it, and it
// was not stopped. j may be nil.
func countsJob(j *berth.Job) bool { return j != nil && !j.Stop && j.ParentID == "" }

// countQuotaJob does what countQuota does for a job; either may be nil.
func (tx *Tx) countQuotaJob(old, j *berth.Job) {
	if tx.quotas.count == 0 {
		return
	}
	for _, x := range []struct {
		*berth.Job
		sign int64
	}{{old, -1}, {j, 1}} {
		if countsJob(x.Job) {
			if u := tx.usedBy(x.Namespace); u != nil {
				u.Add(u.OfJob(x.Job), x.sign)
			}
		}
	}
}

// countQuotaBytes counts encrypted bytes of variables that a namespace has more,
// or less.
func (tx *Tx) countQuotaBytes(namespace string, more int) {
	if more == 0 || tx.quotas.count == 0 {
		return
	}
	if u := tx.usedBy(namespace); u != nil {
		u.Add(u.OfVariable(more), 1)
	}
}

// quotaAllowsJob returns a Denied error if a job begins to count, and the quota
// of its namespace has no room for it. old is the version before it, or nil.
func (tx *Tx) quotaAllowsJob(old, j *berth.Job) error {
	if countsJob(old) || !countsJob(j) {
		return nil
	}
	if u := tx.usedBy(j.Namespace); u != nil {
		return exceeds("job.namespace", u, u.OfJob(j))
	}
	return nil
}

// quotaAllowsBytes returns a Denied error if the quota of a namespace has no
// room for more encrypted bytes of variables.
func (tx *Tx) quotaAllowsBytes(namespace string, more int) error {
	if u := tx.usedBy(namespace); u != nil {
		return exceeds("Items", u, u.OfVariable(more))
	}
	return nil
}

// exceeds returns a Denied error if a quota has no room for an ask.
func exceeds(field string, u *quota.Usage, ask []int64) error {
	lacks := u.Lacks(ask)
	if len(lacks) == 0 {
		return nil
	}
	return berth.Errorf(berth.Denied, "%s: quota %q leaves no room: %s", field, u.Quota, strings.Join(lacks, "; "))
}

// quotaPlan checks the placements of a plan against a quota. It is nil if the
// namespace has no quota.
type quotaPlan struct {
	use  *quota.Usage
	asks map[*berth.TaskGroup][]int64
}

// quotaForPlan returns the check for a job's plan.
func (tx *Tx) quotaForPlan(job *berth.Job) *quotaPlan {
	use := tx.usedBy(job.Namespace)
	if use == nil {
		return nil
	}
	return &quotaPlan{use, map[*berth.TaskGroup][]int64{}}
}

// refuses returns why the quota has no room for one more allocation, or nil.
func (p *quotaPlan) refuses(v version) *berth.Refusal {
	if p == nil {
		return nil
	}
	ask, known := p.asks[v.group]
	if !known {
		ask = p.use.Of(v.job, v.group)
		p.asks[v.group] = ask
	}
	if p.use.Room(ask, 1) == 1 {
		return nil
	}
	return berth.Refuse(berth.RefusedQuota, "quota "+p.use.Quota+": "+strings.Join(p.use.Lacks(ask), "; "))
}

// recountQuota counts from the rows what is used of the quota in a slot.
func (tx *Tx) recountQuota(slot uint32) {
	tx.setQuotaCount(slot, tx.CountQuota(tx.quotas.vec.Get(slot)))
}

// CountQuota counts from the rows what is used of a quota. It reads all of them.
func (s *Snapshot) CountQuota(q *berth.Quota) *quota.Usage {
	u := quota.Empty(q, s.Index)
	spaces := map[string]bool{}
	for n := range s.Namespaces() {
		if n.Quota == q.Name {
			spaces[n.Name] = true
		}
	}
	if len(spaces) == 0 {
		return u
	}
	asks := map[*berth.TaskGroup][]int64{}
	for a := range s.Allocs() {
		if !a.Occupies() || !spaces[a.Job.Namespace] {
			continue
		}
		ask := asks[a.Group]
		if ask == nil {
			ask = u.Of(a.Job, a.Group)
			asks[a.Group] = ask
		}
		u.Add(ask, 1)
	}
	for name := range spaces {
		for j := range s.Jobs(name, "") {
			if countsJob(j) {
				u.Add(u.OfJob(j), 1)
			}
		}
		bytes := 0
		for v := range s.VariablesWith(name, "") {
			bytes += len(v.Data)
		}
		u.Add(u.OfVariable(bytes), 1)
	}
	return u
}

// MaxQuotas is the largest number of quotas that one command names.
const MaxQuotas = 1000

// UpsertQuotas creates or changes quotas. What exceeds them already goes on.
type UpsertQuotas struct {
	Quotas []*berth.Quota
	Region string // of the servers: whose limits they enforce
}

// Apply implements Command.
func (c *UpsertQuotas) Apply(tx *Tx) error {
	if n := len(c.Quotas); n == 0 || n > MaxQuotas {
		return berth.Errorf(berth.Invalid, "quotas: must name 1 to %d, got %d", MaxQuotas, n)
	}
	for _, q := range c.Quotas {
		if q == nil {
			return berth.Errorf(berth.Invalid, "quotas: one of them is empty")
		}
		if err := validate.Quota(q); err != nil {
			return err
		}
	}
	t := &tx.quotas
	for _, q := range c.Quotas {
		row := *q
		row.Region, row.CreateIndex, row.ModifyIndex = c.Region, tx.Index, tx.Index
		row.Limits = make([]*berth.QuotaLimit, len(q.Limits))
		for i, l := range q.Limits {
			limit := *l
			limit.Hash = l.Sum()
			row.Limits[i] = &limit
		}
		slot, known := t.byName.First(q.Name)
		old := tx.Quota(q.Name)
		if known {
			row.CreateIndex = old.CreateIndex
			t.set(tx, slot, &row)
		} else {
			slot = t.insert(tx, &row)
			t.byName.Add(tx.edit, q.Name, slot)
		}
		tx.note(Quotas, anyOrNil(old), &row)
		tx.recountQuota(slot)
	}
	return nil
}

// DeleteQuotas deletes quotas that no namespace names. One that is named refuses
// the whole command.
type DeleteQuotas struct {
	Names []string
}

// Apply implements Command.
func (c *DeleteQuotas) Apply(tx *Tx) error {
	if n := len(c.Names); n == 0 || n > MaxQuotas {
		return berth.Errorf(berth.Invalid, "quotas: must name 1 to %d, got %d", MaxQuotas, n)
	}
	for _, name := range c.Names {
		if tx.Quota(name) == nil {
			return berth.Errorf(berth.NotFound, "quota %.150q not found", name)
		}
		var users []string
		for n := range tx.Namespaces() {
			if n.Quota == name {
				users = append(users, n.Name)
			}
		}
		if len(users) > 0 {
			return berth.Errorf(berth.Conflict, "quota %q cannot be deleted: it limits %s", name, named("namespace", users))
		}
	}
	t := &tx.quotas
	for _, name := range c.Names {
		slot, ok := t.byName.First(name)
		if !ok { // named twice
			continue
		}
		old := t.vec.Get(slot)
		t.byName.Remove(tx.edit, name, slot)
		t.remove(tx, slot)
		tx.note(Quotas, old, nil)
		if u := t.usage.Get(slot); u != nil {
			t.usage.Set(tx.edit, slot, nil)
			t.counted = tx.Index
			tx.note(QuotaUsages, u, nil)
		}
	}
	return nil
}

// moveQuota counts again what is used of the quotas that a namespace named and
// names now. Either may be nil: it is created or deleted.
func (tx *Tx) moveQuota(old, n *berth.Namespace) {
	was, is := "", ""
	if old != nil {
		was = old.Quota
	}
	if n != nil {
		is = n.Quota
	}
	if was == is {
		return
	}
	for _, name := range []string{was, is} {
		if slot, ok := tx.quotas.byName.First(name); ok && name != "" {
			tx.recountQuota(slot)
		}
	}
}

// loadQuota adds a quota. What is used of it is counted when all is loaded.
func loadQuota(l *loader, r *codec.Reader) error {
	index := r.Uint()
	q, tx := read[berth.Quota](r), l.tx
	if r.Err() != nil {
		return nil
	}
	if q.Name == "" || tx.Quota(q.Name) != nil {
		return duplicate("quota", q.Name)
	}
	if err := validate.Quota(q); err != nil {
		return err
	}
	t := &tx.quotas
	slot := t.insert(tx, q)
	t.byName.Add(tx.edit, q.Name, slot)
	t.usage.Set(tx.edit, slot, &quota.Usage{Index: index})
	return nil
}

// countQuotas counts what is used of the quotas that were loaded.
func (l *loader) countQuotas() {
	t := &l.tx.quotas
	for _, slot := range t.byName.All() {
		u := l.tx.CountQuota(t.vec.Get(slot))
		u.Index = t.usage.Get(slot).Index
		freeze(u)
		t.usage.Set(l.tx.edit, slot, u)
	}
}
