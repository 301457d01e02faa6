package invariant

import "slices"

// quotas checks I-60 (what is used of a quota is what a recount of the rows
// gives) and I-12 for quotas: the one that a namespace names exists.
func (c *checker) quotas() {
	for q := range c.Quotas() {
		got, want := c.QuotaUsage(q.Name), c.CountQuota(q)
		if got == nil || !slices.Equal(got.Lines, want.Lines) || !slices.Equal(got.Used, want.Used) {
			c.addf("I-60", "of quota %q %+v is used; recounted: %+v", q.Name, got, want)
		}
	}
	for n := range c.Namespaces() {
		if n.Quota != "" && c.Quota(n.Quota) == nil {
			c.addf("I-12", "namespace %q names the quota %q, which does not exist", n.Name, n.Quota)
		}
	}
}
