package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/state"
)

// What is placed may still be on its way: a deployment waits for health or for a
// person, a task waits to be started again.

// brokerPaused is why nothing is decided while the broker is paused.
const brokerPaused = "the evaluation broker is paused: `berth operator scheduler set-config -pause-eval-broker=false` resumes it"

// deployed returns the newest deployment if it is of the job's version, else nil.
func (a *explainer) deployed() *berth.Deployment {
	if d := a.snap.NewestDeployment(a.key, a.job.UID); d != nil && d.JobVersion == a.job.Version {
		return d
	}
	return nil
}

// failedWith reports whether the deployment of the job's version has failed and
// includes a group: then nothing of that version is placed.
func (a *explainer) failedWith(group string) bool {
	return a.rollout != nil && a.rollout.Status == berth.DeploymentFailed && a.rollout.TaskGroups[group] != nil
}

// halts reports whether a failed allocation is not replaced because it belongs
// to a deployment that has failed.
func (a *explainer) halts(al *berth.Alloc) bool {
	return a.failedWith(al.Group.Name) && al.Rest().DeploymentID == a.rollout.ID
}

// failure returns what is said of the deployment of the job's version, "" unless
// it has failed.
func (a *explainer) failure() string {
	d := a.rollout
	if d == nil || d.Status != berth.DeploymentFailed {
		return ""
	}
	return fmt.Sprintf("deployment %s of version %d has failed (%s), and nothing more of this version is placed: change the job, or go back with `berth job revert`",
		d.ID.Short(), d.JobVersion, strings.TrimSuffix(d.StatusDescription, "."))
}

// deployment returns what the deployment of the job's version waits for, "" if
// there is none in progress.
func (a *explainer) deployment() string {
	d := a.rollout
	if d == nil || !d.Active() {
		return ""
	}
	if d.Status == berth.DeploymentPaused {
		return fmt.Sprintf("deployment %s is paused: `berth deployment resume %[1]s` goes on", d.ID.Short())
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(d.TaskGroups)) {
		g := d.TaskGroups[name]
		by := ""
		if !g.RequireProgressBy.IsZero() {
			by = "; without another one by " + stamp(g.RequireProgressBy.UnixNano()) + " it fails"
		}
		healthy := a.snap.HealthyCanaries(d, name)
		switch {
		case g.DesiredCanaries > 0 && !g.Promoted && healthy < g.DesiredCanaries:
			parts = append(parts, fmt.Sprintf("%d of %d canaries of group %q %s healthy%s", healthy, g.DesiredCanaries, name, verb(healthy, "is", "are"), by))
		case g.DesiredCanaries > 0 && !g.Promoted && !g.AutoPromote:
			parts = append(parts, fmt.Sprintf("all canaries of group %q are healthy and wait for `berth deployment promote %s`", name, d.ID.Short()))
		case g.HealthyAllocs < g.DesiredTotal:
			parts = append(parts, fmt.Sprintf("%d of %d instances of group %q %s healthy%s", g.HealthyAllocs, g.DesiredTotal, name, verb(g.HealthyAllocs, "is", "are"), by))
		}
	}
	if len(parts) == 0 {
		return "" // it is about to be complete
	}
	return fmt.Sprintf("deployment %s of version %d goes on: %s", d.ID.Short(), d.JobVersion, strings.Join(parts, "; "))
}

// startsAgain returns when the first task of an allocation that waits for the
// delay of its restart policy is started again. It is zero if none waits.
func startsAgain(al *berth.Alloc, now time.Time) (first time.Time) {
	if al.Client != berth.ClientPending && al.Client != berth.ClientRunning {
		return first
	}
	for _, s := range state.TaskStates(al) {
		if s.State != berth.TaskPending || len(s.Events) == 0 {
			continue
		}
		last := &s.Events[len(s.Events)-1]
		if last.Type != berth.EventRestarting {
			continue
		}
		delay, err := strconv.ParseInt(last.Details[berth.DetailStartDelay], 10, 64)
		if err != nil {
			continue
		}
		if at := time.Unix(0, last.Time+delay); at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
