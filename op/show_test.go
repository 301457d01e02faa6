package op_test

import (
	"encoding/json"
	"testing"
	"time"

	"berth"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// Details of an event arrive in the fields that the public Go client has for them.
func TestEventsHaveTheFieldsOfOlderClients(t *testing.T) {
	event := func(typ, says string, details ...string) berth.TaskEvent {
		e := berth.TaskEvent{Type: typ, DisplayMessage: says, Details: map[string]string{}}
		for i := 0; i < len(details); i += 2 {
			e.Details[details[i]] = details[i+1]
		}
		return e
	}
	for _, c := range []struct {
		in   berth.TaskEvent
		want nomad.TaskEvent
	}{
		{event(berth.EventTerminated, "Exit Code: 137, Signal: 9", "exit_code", "137", "signal", "9", "exit_message", "OOM Killed"),
			nomad.TaskEvent{ExitCode: 137, Signal: 9, Message: "OOM Killed"}},
		{event(berth.EventTerminated, "How the task ended is not known"), nomad.TaskEvent{}},
		{event(berth.EventRestarting, "Task restarting in 15s", "restart_reason", "restart within policy", berth.DetailStartDelay, "15000000000"),
			nomad.TaskEvent{RestartReason: "restart within policy", StartDelay: 15e9}},
		{event(berth.EventNotRestarting, "Policy allows no restarts", "fails_task", "true", "restart_reason", "Policy allows no restarts"),
			nomad.TaskEvent{FailsTask: true, RestartReason: "Policy allows no restarts"}},
		{event(berth.EventSetupFailure, "no such user"), nomad.TaskEvent{SetupError: "no such user"}},
		{event(berth.EventDriverFailure, "no such file"), nomad.TaskEvent{DriverError: "no such file"}},
		{event(berth.EventDriver, "Downloading image"), nomad.TaskEvent{DriverMessage: "Downloading image"}},
		{event(berth.EventDownloadFailed, "404"), nomad.TaskEvent{DownloadError: "404"}},
		{event(berth.EventKilling, "Asked to end", "kill_reason", "the job was stopped", "kill_timeout", "5s"),
			nomad.TaskEvent{KillReason: "the job was stopped", KillTimeout: 5 * time.Second}},
		{event(berth.EventSiblingFailed, "task \"db\" failed", berth.DetailFailedSibling, "db"), nomad.TaskEvent{FailedSibling: "db"}},
		{event(berth.EventSignaling, "Task being sent SIGHUP: asked for", "signal", "SIGHUP", "signal_reason", "asked for"),
			nomad.TaskEvent{TaskSignal: "SIGHUP", TaskSignalReason: "asked for"}},
	} {
		shown := op.ShowTaskStates(map[string]*berth.TaskState{"t": {State: berth.TaskDead, Events: []berth.TaskEvent{c.in}}})
		b, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]*nomad.TaskState
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		c.want.Type, c.want.DisplayMessage, c.want.Details = c.in.Type, c.in.DisplayMessage, c.in.Details
		want, _ := json.Marshal(c.want)
		if have, _ := json.Marshal(got["t"].Events[0]); string(have) != string(want) {
			t.Errorf("%s:\n got %s\nwant %s", c.in.Type, have, want)
		}
	}
}

// The descriptions of deployments are those that scripts for Nomad compare.
func TestDeploymentsAreDescribedAsInNomad(t *testing.T) {
	canary := map[string]*berth.DeploymentState{"g": {DesiredCanaries: 1, AutoPromote: true}}
	for _, c := range []struct {
		stored string
		groups map[string]*berth.DeploymentState
		want   string
	}{
		{berth.DeploymentRuns, nil, "Deployment is running"},
		{berth.DeploymentRuns, canary, "Deployment is running pending automatic promotion"},
		{berth.DeploymentWaits, nil, "Deployment is running but requires manual promotion"},
		{berth.DeploymentDone, canary, "Deployment completed successfully"},
		{berth.DeploymentUnhealthy, nil, "Failed due to unhealthy allocations"},
		{berth.DeploymentUnhealthy + "; the job was reverted to version 3, as version 5", nil, "Failed due to unhealthy allocations - rolling back to job version 3"},
		{berth.DeploymentNoProgress + "; no earlier version of the job is stable, so it stays as it is", nil,
			"Failed due to progress deadline - no stable job version to auto revert to"},
		{berth.DeploymentUserFailed + "; the newest stable version, 2, has the same specification, so the job stays as it is", nil,
			"Deployment marked as failed - not rolling back to stable job version 2 as current job has same specification"},
		{"something of a later release", nil, "something of a later release"},
	} {
		d := &berth.Deployment{StatusDescription: c.stored, TaskGroups: c.groups}
		if got := op.ShowDeployment(d).StatusDescription; got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.stored, got, c.want)
		}
		if d.StatusDescription != c.stored {
			t.Errorf("the row changed to %q", d.StatusDescription)
		}
	}
}
