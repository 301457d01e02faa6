package admit

import (
	"time"

	"berth"
)

// restart checks the restart policy of a group. Attempts that the delay alone
// spreads over more than the interval could never be used up.
func (c *checker) restart(at string, p *berth.RestartPolicy) {
	c.restartValues(at, p)
	if n := int64(p.Attempts); n > 0 && n <= 1_000_000 && p.Delay > 0 && p.Interval/p.Delay < time.Duration(n) {
		c.addf(at, "%d attempts with a delay of %v do not fit into an interval of %v", n, p.Delay, p.Interval)
	}
}

// restartValues checks each value of a restart policy by itself. That is all
// for the policy of a task, as in Nomad: job files have ones whose attempts do
// not fit, and the interval then just restarts them without end.
func (c *checker) restartValues(at string, p *berth.RestartPolicy) {
	c.oneOf(at+".mode", p.Mode, berth.RestartDelay, berth.RestartFail)
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.duration(at+".interval", p.Interval, minInterval)
	c.duration(at+".delay", p.Delay, 0)
}

// reschedule checks a reschedule policy. Of one that is off only the fields
// that contradict this are checked.
func (c *checker) reschedule(at string, p *berth.ReschedulePolicy) {
	c.between(at+".attempts", int64(p.Attempts), 0, 1_000_000)
	c.duration(at+".interval", p.Interval, 0)
	if !p.Enabled() {
		if p.Attempts > 0 {
			c.addf(at+".interval", "must be above 0s with attempts = %d, got 0s", p.Attempts)
		}
		return
	}
	c.oneOf(at+".delay_function", p.DelayFunction, berth.DelayConstant, berth.DelayExponential, berth.DelayFibonacci)
	c.duration(at+".delay", p.Delay, minReschedWait)
	c.duration(at+".max_delay", p.MaxDelay, 0)
	if p.DelayFunction != berth.DelayConstant && p.MaxDelay < p.Delay {
		c.addf(at+".max_delay", "must be at least delay, %v, got %v", p.Delay, p.MaxDelay)
	}
	if p.Unlimited && p.Attempts > 0 {
		c.addf(at+".unlimited", "must be false with attempts = %d, got true", p.Attempts)
	}
}

// maxRun checks max_run_duration, the longest that an allocation may run; 0
// means no limit. An allocation that is stopped by it counts as complete, which
// makes sense only for jobs whose tasks end.
func (c *checker) maxRun(at string, j *berth.Job, d time.Duration) {
	if d == 0 {
		return
	}
	c.duration(at, d, time.Nanosecond)
	if !hasType(j, berth.TypeBatch, berth.TypeSysbatch) {
		c.addf(at, "is only for jobs of type batch or sysbatch, not %s", j.Type)
	}
}

// disconnect checks what happens while a client is disconnected. A group sets
// this with the disconnect block or with the older fields, not both.
func (c *checker) disconnect(at string, j *berth.Job, g *berth.TaskGroup) {
	var old string // an older field that is set
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
	// The disconnect block replaces the older fields; the checks below are
	// the same for both, under the names the file uses.
	lost, stop, lostName := g.MaxClientDisconnect, at+".stop_after_client_disconnect", "max_client_disconnect"
	if d := g.Disconnect; d != nil {
		dat := at + ".disconnect"
		if old != "" {
			c.addf(dat, "cannot be combined with %s, which means the same", old)
		}
		lost, stop, lostName = d.LostAfter, dat+".stop_on_client_after", "lost_after"
		c.duration(dat+".lost_after", d.LostAfter, 0)
		if d.StopOnClientAfter != nil {
			c.duration(stop, *d.StopOnClientAfter, time.Nanosecond)
		}
		c.oneOf(dat+".reconcile", d.Reconcile, berth.KeepBestScore, berth.KeepOriginal, berth.KeepReplacement, berth.KeepLongestRunning)
	}
	// The rest is about stopping while disconnected.
	if g.StopAway() == 0 {
		return
	}
	if lost != 0 {
		c.addf(stop, "cannot be combined with %s", lostName)
	}
	if !hasType(j, berth.TypeService, berth.TypeBatch, berth.TypeStream) {
		c.addf(stop, "is only for jobs of type service, batch or stream, not %s", j.Type)
	}
}
