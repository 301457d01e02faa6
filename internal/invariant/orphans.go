package invariant

// orphans looks through every table that belongs to another one for what goes
// with a job or an evaluation and did not (I-22). Deployments and records of
// launches are looked at where the rest of them is, services with I-12.
func (c *checker) orphans() {
	for x := range c.Explanations() {
		if c.Eval(x.Eval) == nil {
			c.addf("I-22", "there is an explanation of evaluation %s, which is not there", x.Eval)
		}
	}
	for r := range c.AllReschedules() {
		if !c.lives(r.Job, r.UID) {
			c.addf("I-22", "there are reschedules of job %s, %s, which is not there", r.Job, r.UID.Text('j'))
		}
	}
	for v := range c.AllVersions() {
		if !c.lives(v.Key(), v.UID) {
			c.addf("I-22", "there is version %d of job %s, %s, which is not there", v.Version, v.Key(), v.UID.Text('j'))
		}
	}
	for x := range c.AllSubmissions() {
		if c.JobVersion(x.Key, x.Version) == nil {
			c.addf("I-22", "there is what version %d of job %s was made from, which is not there", x.Version, x.Key)
		}
	}
}
