package berth

import "time"

// UpdateStrategy decides how a new version of a group replaces the old one.
type UpdateStrategy struct {
	Stagger          time.Duration
	MaxParallel      int           // 0: all at once, without a deployment
	HealthCheck      string        // one of the Health constants
	MinHealthyTime   time.Duration // for how long an allocation must do well to be healthy
	HealthyDeadline  time.Duration // from its placement; then it is unhealthy
	ProgressDeadline time.Duration // longest time between two healthy allocations; 0: the first unhealthy one ends it
	Canary           int           // instances; of a system job, percent of its nodes
	AutoRevert       bool          // a deployment that fails goes back to the last stable version
	AutoPromote      bool          // canaries are promoted once all of them are healthy
}

// The ways in which an allocation of a deployment becomes healthy.
const (
	HealthChecks     = "checks"      // its tasks run and all its checks pass; without checks its tasks alone count
	HealthTaskStates = "task_states" // its tasks run
	HealthManual     = "manual"      // a user sets it
)

// MigrateStrategy decides how allocations leave a draining node.
type MigrateStrategy struct {
	MaxParallel     int    // that leave at a time, wherever they are; 0: none before the drain's deadline
	HealthCheck     string // what makes a replacement healthy
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration // from its placement; then it counts, healthy or not
	StartFirst      bool          // the old allocation runs until its replacement is healthy
}

// Migration returns how the group's allocations leave draining nodes.
func (g *TaskGroup) Migration() MigrateStrategy {
	if g.Migrate != nil {
		return *g.Migrate
	}
	return DefaultMigrate()
}

// RestartPolicy limits how often an agent restarts a failed task in place.
type RestartPolicy struct {
	Attempts        int           // starts allowed within Interval, beyond the first
	Interval        time.Duration // length of the window that attempts are counted in
	Delay           time.Duration // wait before a restart; up to a quarter of it is added at random
	Mode            string        // what happens when the attempts are used up
	RenderTemplates bool
}

// The modes of a restart policy.
const (
	RestartDelay = "delay" // wait for the interval to end, then go on
	RestartFail  = "fail"  // the task has failed, and with it the allocation
)

// ReschedulePolicy limits how often and how soon a failed allocation is replaced
// by one on another node.
type ReschedulePolicy struct {
	Attempts      int           // replacements allowed within Interval
	Interval      time.Duration // length of the window that attempts are counted in
	Delay         time.Duration // wait before the first replacement
	DelayFunction string        // how the wait grows
	MaxDelay      time.Duration // the longest wait
	Unlimited     bool          // Attempts and Interval are ignored
}

// The delay functions of a reschedule policy.
const (
	DelayConstant    = "constant"
	DelayExponential = "exponential"
	DelayFibonacci   = "fibonacci"
)

// Enabled reports whether failed allocations are replaced at all.
func (p *ReschedulePolicy) Enabled() bool {
	return p != nil && (p.Unlimited || p.Attempts > 0 && p.Interval > 0)
}

// Wait returns how long the (n+1)th replacement in a row waits, counted from
// the failure. n is the number of replacements before it.
func (p *ReschedulePolicy) Wait(n int) time.Duration {
	limit := p.MaxDelay
	if limit <= 0 {
		limit = 1<<63 - 1
	}
	a, b := p.Delay, p.Delay // the wait, and for fibonacci the next one
	for range n {
		if a >= limit {
			break
		}
		switch p.DelayFunction {
		case DelayExponential:
			a *= 2
		case DelayFibonacci:
			a, b = b, a+b
		}
		if p.DelayFunction == DelayConstant || a <= 0 { // constant, or grown past the largest duration
			break
		}
	}
	if a < 0 || p.DelayFunction != DelayConstant && a > limit {
		a = limit
	}
	return a
}

// Streak returns how many replacements in a row count for the next wait, after n
// replacements and with how long the allocation that failed now had run. One that
// ran longer than the longest wait has shown that it can run: the waits start
// again.
func (p *ReschedulePolicy) Streak(n int, ran time.Duration) int {
	if p.MaxDelay > 0 && ran > p.MaxDelay {
		return 0
	}
	return n
}

// DisconnectStrategy decides what happens to an allocation whose node is
// disconnected.
type DisconnectStrategy struct {
	LostAfter         time.Duration  // for how long a disconnected node is waited for
	StopOnClientAfter *time.Duration // when the agent stops the tasks by itself; nil: never
	Replace           bool           // a replacement runs meanwhile
	Reconcile         string         // one of the Keep constants
}

// Which allocation stays when a replaced one reconnects.
const (
	KeepBestScore      = "best_score"
	KeepOriginal       = "keep_original"
	KeepReplacement    = "keep_replacement"
	KeepLongestRunning = "longest_running"
)

// Away returns what happens to the group's allocations while their node is
// disconnected: how long they are unknown before they are lost (0: lost at once),
// whether they are replaced meanwhile, and which allocation stays when they
// reconnect. It also reads the fields that jobs had before the disconnect block.
// Allocations that are neither replaced nor given a time are unknown forever.
func (g *TaskGroup) Away() (lostAfter time.Duration, replace bool, keep string) {
	lostAfter, replace, keep = g.MaxClientDisconnect, !g.PreventRescheduleOnLost, KeepBestScore
	if d := g.Disconnect; d != nil {
		lostAfter, replace, keep = d.LostAfter, d.Replace, d.Reconcile
	}
	if lostAfter == 0 && !replace {
		lostAfter = MaxDuration
	}
	return lostAfter, replace, keep
}

// StopAway returns how long an agent without contact to servers lets the group's
// tasks run; 0 is without limit.
func (g *TaskGroup) StopAway() time.Duration {
	if d := g.Disconnect; d != nil && d.StopOnClientAfter != nil {
		return *d.StopOnClientAfter
	}
	return g.StopAfterClientDisconnect
}

// FenceMargin is how much later than an agent's clock servers believe that tasks
// have stopped by themselves: for the supervisor to notice and to kill, and for
// clocks of servers that differ.
const FenceMargin = 5 * time.Second

// Fence returns how long after an agent's last contact to servers nothing of the
// group runs on its node any more, whether the agent lives or not; 0 if that is
// not known, because tasks may run without contact. Until then nothing that
// takes the place of an allocation may run elsewhere.
func (g *TaskGroup) Fence() time.Duration {
	d := g.StopAway()
	if d == 0 {
		return 0
	}
	var kill time.Duration // after it is asked to end, a task may take this long
	for _, t := range g.Tasks {
		kill = max(kill, t.KillTimeout)
	}
	return d + kill + FenceMargin
}

// DefaultMigrate is how allocations leave draining nodes when a job does not say.
func DefaultMigrate() MigrateStrategy {
	return MigrateStrategy{MaxParallel: 1, HealthCheck: "checks", MinHealthyTime: 10 * time.Second, HealthyDeadline: 5 * time.Minute}
}
