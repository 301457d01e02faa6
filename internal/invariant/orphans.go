package invariant

// orphans checks I-22: it searches the dependent tables for rows that should
// have been deleted with a job or an evaluation. Deployments and launch records
// are checked elsewhere, services with I-12.
func (c *checker) orphans() {
	for x := range c.Explanations() {
		if c.Eval(x.Eval) == nil {
			c.addf("I-22", "there is an explanation of evaluation %s, which does not exist", x.Eval)
		}
	}
	for r := range c.AllReschedules() {
		if !c.lives(r.Job, r.UID) {
			c.addf("I-22", "there are reschedules of job %s, %s, which does not exist", r.Job, r.UID.Text('j'))
		}
	}
	for v := range c.AllVersions() {
		if !c.lives(v.Key(), v.UID) {
			c.addf("I-22", "there is version %d of job %s, %s, which does not exist", v.Version, v.Key(), v.UID.Text('j'))
		}
	}
	for x := range c.AllSubmissions() {
		if c.JobVersion(x.Key, x.Version) == nil {
			c.addf("I-22", "there is the source of version %d of job %s, which does not exist", x.Version, x.Key)
		}
	}
}
