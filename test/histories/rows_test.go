package histories

import (
	"fmt"
	"strings"
	"sync/atomic"

	"berth"
	"berth/internal/state"
)

// row is one row of the tables of what becomes of evaluations, or another
// thing that histories must show.
type row int

const (
	bornRegister row = iota
	bornDeregister
	bornNodeUpdate
	bornForEachNode
	bornAllocFailure
	bornReconnect
	bornScheduled
	bornPeriodic
	bornDrain
	bornAllocStop
	bornScaling
	pendingScheduling
	delayedScheduling
	schedulingApplying
	applyingScheduling
	schedulingComplete
	nothingToDo
	schedulingFailed
	schedulingCanceled
	pendingCanceled
	pendingFailed
	blockedScheduling
	schedulingBlocked
	blockedWaitsOn
	blockedComplete
	blockedCanceledStop
	blockedCanceledNewer
	blockedFailed
	completeDeleted
	failedDeleted
	canceledDeleted
	newQueued
	newQueuedOnNode
	newRolling
	newPreemption
	newStep
	newMaxAttempts
	newFollowUp
	newLater
	newMaxDisconnect
	nacked
	staleToken
	termsEnded
	workersDied
	keptAfterTerm
	paused
	evicted
	deploymentsBegun
	deploymentsDone
	deploymentsFailed
	deploymentsCancelled
	deploymentsPaused
	promoted
	reverted
	drainsDone
	drainsCanceled
	launches
	launchesSkipped
	dispatched
	tokenAgain
	audits
	rowCount
)

var rowNames = [rowCount]string{
	bornRegister:         "– → pending: job-register",
	bornDeregister:       "– → pending: job-deregister",
	bornNodeUpdate:       "– → pending: node-update",
	bornForEachNode:      "– → pending: node-update, of what runs on every node",
	bornAllocFailure:     "– → pending: alloc-failure",
	bornReconnect:        "– → pending: reconnect",
	bornScheduled:        "– → pending: scheduled",
	bornPeriodic:         "– → pending: periodic-job",
	bornDrain:            "– → pending: node-drain",
	bornAllocStop:        "– → pending: alloc-stop",
	bornScaling:          "– → pending: job-scaling",
	pendingScheduling:    "pending → scheduling",
	delayedScheduling:    "pending → delayed → scheduling",
	schedulingApplying:   "scheduling → applying",
	applyingScheduling:   "applying → scheduling: refused in part or whole",
	schedulingComplete:   "scheduling → complete: its plan is applied",
	nothingToDo:          "scheduling → complete: there is nothing to do",
	schedulingFailed:     "scheduling → failed: the attempts ran out",
	schedulingCanceled:   "scheduling → canceled: superseded while a worker had it",
	pendingCanceled:      "pending → canceled: superseded",
	pendingFailed:        "pending → failed: undeliverable",
	blockedScheduling:    "blocked → scheduling",
	schedulingBlocked:    "scheduling → blocked: still no room, no new evaluation",
	blockedWaitsOn:       "blocked → blocked: a newer one of its job looked at its node, and there is no room still",
	blockedComplete:      "blocked → complete",
	blockedCanceledStop:  "blocked → canceled: no-op, the job was stopped",
	blockedCanceledNewer: "blocked → canceled: a newer one of its job",
	blockedFailed:        "blocked → failed: undeliverable",
	completeDeleted:      "complete → deleted",
	failedDeleted:        "failed → deleted",
	canceledDeleted:      "canceled → deleted",
	newQueued:            "new: queued-allocs, blocked",
	newQueuedOnNode:      "new: queued-allocs, blocked, one for each node",
	newRolling:           "new: rolling-update, delayed",
	newPreemption:        "new: preemption",
	newStep:              "new: deployment-watcher",
	newMaxAttempts:       "new: max-plan-attempts, blocked",
	newFollowUp:          "new: failed-follow-up, delayed",
	newLater:             "new: alloc-failure, delayed",
	newMaxDisconnect:     "new: max-disconnect-timeout, delayed",
	nacked:               "also: a worker gave it back",
	staleToken:           "also: a plan with an old token, refused",
	termsEnded:           "also: terms that ended",
	workersDied:          "also: workers that died",
	keptAfterTerm:        "also: entries safe though their term ended",
	paused:               "also: pauses of the broker",
	evicted:              "also: allocations that were evicted",
	deploymentsBegun:     "also: deployments",
	deploymentsDone:      "also: deployments that succeeded",
	deploymentsFailed:    "also: deployments that failed",
	deploymentsCancelled: "also: deployments that were cancelled",
	deploymentsPaused:    "also: deployments that were paused",
	promoted:             "also: groups whose canaries were promoted",
	reverted:             "also: jobs that went back by themselves",
	drainsDone:           "also: drains that were done",
	drainsCanceled:       "also: drains that were ended before",
	launches:             "also: launches of periodic jobs",
	launchesSkipped:      "also: launches left out because a child was not over",
	dispatched:           "also: jobs dispatched",
	tokenAgain:           "also: dispatches with a token that was used",
	audits:               "also: comparisons of broker and state",
}

// open are the rows of the tables that nothing takes yet, and why.
var open = [][2]string{
	{"scheduling → failed: wrong type", "a worker is given only types that it has a scheduler for"},
	{"failed → scheduling → blocked / complete", "an evaluation that failed leaves the broker with the command that says so; its follow-up, or its blocked evaluation, is what is tried again"},
}

// coverage counts how often each row was taken.
type coverage [rowCount]atomic.Int64

func (c *coverage) add(other *coverage) {
	for i := range c {
		c[i].Add(other[i].Load())
	}
}

// String is the table of counts.
func (c *coverage) String() string {
	var b strings.Builder
	for r, name := range rowNames {
		fmt.Fprintf(&b, "%9d  %s\n", c[r].Load(), name)
	}
	for _, o := range open {
		fmt.Fprintf(&b, "%9s  %s: %s\n", "open", o[0], o[1])
	}
	return b.String()
}

// count counts the rows that a commit took.
func (h *history) count(changes []state.Change) {
	busy := map[uint64]bool{} // indexes of commands that changed allocations
	for i := range changes {
		if changes[i].Table == state.Allocs {
			busy[changes[i].Index] = true
			old, _ := changes[i].Old.(*berth.Alloc)
			if a, _ := changes[i].New.(*berth.Alloc); a != nil && old != nil && a.Desired == berth.DesiredEvict && old.Wanted() {
				h.took(evicted)
			}
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Table != state.Evals {
			continue
		}
		old, _ := c.Old.(*berth.Eval)
		new, _ := c.New.(*berth.Eval)
		switch {
		case old == nil:
			h.countBorn(new)
		case new == nil:
			h.took(map[string]row{berth.EvalComplete: completeDeleted, berth.EvalFailed: failedDeleted, berth.EvalCanceled: canceledDeleted}[old.Status])
		default:
			h.countMove(c, old, new, !busy[c.Index])
		}
	}
}

func (h *history) countBorn(e *berth.Eval) {
	switch {
	case e.TriggeredBy == berth.TriggerJobRegister:
		h.took(bornRegister)
	case e.TriggeredBy == berth.TriggerJobDeregister:
		h.took(bornDeregister)
	case e.TriggeredBy == berth.TriggerNodeUpdate && berth.PerNode(e.Type):
		h.took(bornForEachNode)
	case e.TriggeredBy == berth.TriggerNodeUpdate:
		h.took(bornNodeUpdate)
	case e.TriggeredBy == berth.TriggerReconnect:
		h.took(bornReconnect)
	case e.TriggeredBy == berth.TriggerMaxDisconnectTimeout:
		h.took(newMaxDisconnect)
	case e.TriggeredBy == berth.TriggerScheduled:
		h.took(bornScheduled)
	case e.TriggeredBy == berth.TriggerAllocFailure && e.PreviousEval.IsZero():
		h.took(bornAllocFailure)
	case e.TriggeredBy == berth.TriggerAllocFailure:
		h.took(newLater)
	case e.TriggeredBy == berth.TriggerPreemption:
		h.took(newPreemption)
	case e.TriggeredBy == berth.TriggerDeploymentWatcher:
		h.took(newStep)
	case e.TriggeredBy == berth.TriggerPeriodicJob:
		h.took(bornPeriodic)
	case e.TriggeredBy == berth.TriggerNodeDrain:
		h.took(bornDrain)
	case e.TriggeredBy == berth.TriggerAllocStop:
		h.took(bornAllocStop)
	case e.TriggeredBy == berth.TriggerJobScaling:
		h.took(bornScaling)
	case e.TriggeredBy == berth.TriggerRollingUpdate:
		h.took(newRolling)
	case e.TriggeredBy == berth.TriggerQueuedAllocs && !e.NodeID.IsZero():
		h.took(newQueuedOnNode)
	case e.TriggeredBy == berth.TriggerQueuedAllocs:
		h.took(newQueued)
	case e.TriggeredBy == berth.TriggerMaxPlanAttempts:
		h.took(newMaxAttempts)
	case e.TriggeredBy == berth.TriggerFailedFollowUp:
		h.took(newFollowUp)
	default:
		h.failf("evaluation %s was raised by %q", e.ID.Short(), e.TriggeredBy)
	}
}

var (
	byPlan = state.NumberOf(&state.ApplyPlan{})
	byStop = state.NumberOf(&state.StopJob{})
)

func (h *history) countMove(c *state.Change, old, new *berth.Eval, idle bool) {
	if new.Status == berth.EvalCanceled && h.term.ledger.held(new.ID) {
		h.took(schedulingCanceled)
	}
	switch old.Status + " " + new.Status {
	case "pending complete":
		if idle && new.BlockedEval.IsZero() && new.Type != berth.TypeCore {
			h.took(nothingToDo)
		} else {
			h.took(schedulingComplete)
		}
	case "pending failed":
		if c.By == byPlan {
			h.took(schedulingFailed)
		} else {
			h.took(pendingFailed)
		}
	case "pending canceled":
		h.took(pendingCanceled)
	case "blocked blocked":
		if h.term.ledger.held(new.ID) {
			h.took(schedulingBlocked)
		} else {
			h.took(blockedWaitsOn)
		}
	case "blocked complete":
		h.took(blockedComplete)
	case "blocked failed":
		h.took(blockedFailed)
	case "blocked canceled":
		if c.By == byStop || c.By == byPlan && new.StatusDescription == "the job was stopped" {
			h.took(blockedCanceledStop)
		} else {
			h.took(blockedCanceledNewer)
		}
	default:
		h.failf("evaluation %s went from %s to %s", new.ID.Short(), old.Status, new.Status)
	}
}
