package berth

import "time"

func (c *checker) restart(at string, p *RestartPolicy) {
	c.oneOf(at+".mode", p.Mode, RestartDelay, RestartFail)
	c.unbuilt(p.RenderTemplates, at+".render_templates", "")
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.period(at+".interval", p.Interval, minInterval)
	c.period(at+".delay", p.Delay, 0)
	if n := int64(p.Attempts); n > 0 && n <= 1_000_000 && p.Delay > 0 && p.Interval/p.Delay < time.Duration(n) {
		c.addf(at, "%d restarts with a delay of %v do not fit in an interval of %v", n, p.Delay, p.Interval)
	}
}

func (c *checker) reschedule(at string, p *ReschedulePolicy) {
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.period(at+".interval", p.Interval, 0)
	if !p.Enabled() {
		if p.Attempts > 0 {
			c.addf(at+".interval", "0s leaves no room for %d attempts", p.Attempts)
		}
		return
	}
	c.oneOf(at+".delay_function", p.DelayFunction, DelayConstant, DelayExponential, DelayFibonacci)
	c.period(at+".delay", p.Delay, minReschedWait)
	c.period(at+".max_delay", p.MaxDelay, 0)
	if p.DelayFunction != DelayConstant && p.MaxDelay < p.Delay {
		c.addf(at+".max_delay", "%v is below the delay, %v", p.MaxDelay, p.Delay)
	}
	if p.Unlimited && p.Attempts > 0 {
		c.addf(at+".unlimited", "is true, so attempts cannot be %d too", p.Attempts)
	}
}

// maxRun checks how long an allocation may run; 0 is for ever. What ends by it
// has completed, which of jobs that go on for ever would be no end.
func (c *checker) maxRun(at string, j *Job, d time.Duration) {
	if d == 0 {
		return
	}
	c.period(at, d, time.Nanosecond)
	if j.Type != TypeBatch && j.Type != TypeSysbatch {
		c.addf(at, "is not allowed in a job of type %s; allowed are batch and sysbatch", clip(j.Type, 64))
	}
}

// away checks what is said of agents that are not heard. The fields from before
// the disconnect block say the same, so a group has either.
func (c *checker) away(at string, j *Job, g *TaskGroup) {
	var old string // of the fields from before, one that is set
	for _, f := range []struct {
		set  bool
		name string
	}{
		{g.PreventRescheduleOnLost, "prevent_reschedule_on_lost"},
		{g.StopAfterClientDisconnect != 0, "stop_after_client_disconnect"},
		{g.MaxClientDisconnect != 0, "max_client_disconnect"},
	} {
		if f.set {
			old = f.name
		}
	}
	c.period(at+".max_client_disconnect", g.MaxClientDisconnect, 0)
	c.period(at+".stop_after_client_disconnect", g.StopAfterClientDisconnect, 0)
	lost, stop, lostName := g.MaxClientDisconnect, at+".stop_after_client_disconnect", "max_client_disconnect"
	if d := g.Disconnect; d != nil {
		dat := at + ".disconnect"
		if old != "" {
			c.addf(dat, "is there beside %s, which says the same; allowed is one of them", old)
		}
		lost, stop, lostName = d.LostAfter, dat+".stop_on_client_after", "lost_after"
		c.period(dat+".lost_after", d.LostAfter, 0)
		if d.StopOnClientAfter != nil {
			c.period(stop, *d.StopOnClientAfter, time.Nanosecond)
		}
		c.oneOf(dat+".reconcile", d.Reconcile, KeepBestScore, KeepOriginal, KeepReplacement, KeepLongestRunning)
	}
	if g.StopAway() == 0 {
		return
	}
	if lost != 0 {
		c.addf(stop, "is there beside %s; allowed is one of them", lostName)
	}
	if j.Type != TypeService && j.Type != TypeBatch {
		c.addf(stop, "is not allowed in a job of type %s; allowed are service and batch", clip(j.Type, 64))
	}
}
