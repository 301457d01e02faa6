package admit

import (
	"time"

	"berth"
)

func (c *checker) restart(at string, p *berth.RestartPolicy) {
	c.oneOf(at+".mode", p.Mode, berth.RestartDelay, berth.RestartFail)
	c.unsupported(p.RenderTemplates, at+".render_templates", "")
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.duration(at+".interval", p.Interval, minInterval)
	c.duration(at+".delay", p.Delay, 0)
	if n := int64(p.Attempts); n > 0 && n <= 1_000_000 && p.Delay > 0 && p.Interval/p.Delay < time.Duration(n) {
		c.addf(at, "%d restarts with a delay of %v do not fit in an interval of %v", n, p.Delay, p.Interval)
	}
}

func (c *checker) reschedule(at string, p *berth.ReschedulePolicy) {
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.duration(at+".interval", p.Interval, 0)
	if !p.Enabled() {
		if p.Attempts > 0 {
			c.addf(at+".interval", "0s leaves no room for %d attempts", p.Attempts)
		}
		return
	}
	c.oneOf(at+".delay_function", p.DelayFunction, berth.DelayConstant, berth.DelayExponential, berth.DelayFibonacci)
	c.duration(at+".delay", p.Delay, minReschedWait)
	c.duration(at+".max_delay", p.MaxDelay, 0)
	if p.DelayFunction != berth.DelayConstant && p.MaxDelay < p.Delay {
		c.addf(at+".max_delay", "%v is below the delay, %v", p.MaxDelay, p.Delay)
	}
	if p.Unlimited && p.Attempts > 0 {
		c.addf(at+".unlimited", "is true, so attempts cannot be %d too", p.Attempts)
	}
}

// maxRun checks how long an allocation may run; 0 is for ever. What ends by it
// has completed, which of jobs that go on for ever would be no end.
func (c *checker) maxRun(at string, j *berth.Job, d time.Duration) {
	if d == 0 {
		return
	}
	c.duration(at, d, time.Nanosecond)
	if j.Type != berth.TypeBatch && j.Type != berth.TypeSysbatch {
		c.addf(at, "is not allowed in a job of type %s; allowed are batch and sysbatch", berth.Clip(j.Type, 64))
	}
}

// disconnect checks what happens while an agent is disconnected. The fields from before
// the disconnect block say the same, so a group has either.
func (c *checker) disconnect(at string, j *berth.Job, g *berth.TaskGroup) {
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
	c.duration(at+".max_client_disconnect", g.MaxClientDisconnect, 0)
	c.duration(at+".stop_after_client_disconnect", g.StopAfterClientDisconnect, 0)
	lost, stop, lostName := g.MaxClientDisconnect, at+".stop_after_client_disconnect", "max_client_disconnect"
	if d := g.Disconnect; d != nil {
		dat := at + ".disconnect"
		if old != "" {
			c.addf(dat, "is there beside %s, which says the same; allowed is one of them", old)
		}
		lost, stop, lostName = d.LostAfter, dat+".stop_on_client_after", "lost_after"
		c.duration(dat+".lost_after", d.LostAfter, 0)
		if d.StopOnClientAfter != nil {
			c.duration(stop, *d.StopOnClientAfter, time.Nanosecond)
		}
		c.oneOf(dat+".reconcile", d.Reconcile, berth.KeepBestScore, berth.KeepOriginal, berth.KeepReplacement, berth.KeepLongestRunning)
	}
	if g.StopAway() == 0 {
		return
	}
	if lost != 0 {
		c.addf(stop, "is there beside %s; allowed is one of them", lostName)
	}
	if j.Type != berth.TypeService && j.Type != berth.TypeBatch {
		c.addf(stop, "is not allowed in a job of type %s; allowed are service and batch", berth.Clip(j.Type, 64))
	}
}
