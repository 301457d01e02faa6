package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"berth/internal/api"
	"berth/internal/state"
	"berth/op"
)

// doubted is a leader that a majority may not confirm.
type doubted struct {
	leader
	asked int
	err   error // the answer of the majority
}

func (d *doubted) Leader() (api.Leader, error) { return d, nil }

func (d *doubted) Confirm(context.Context) error {
	d.asked++
	return d.err
}

// quietWrites are writes that are answered without a command: refused by their
// handler, found to change nothing, or done at once.
var quietWrites = []struct{ name, method, path, body string }{
	{"a deployment that does not exist is paused", "PUT", "/v1/deployment/pause/11111111-1111-1111-1111-111111111111", `{"DeploymentID": "11111111-1111-1111-1111-111111111111", "Pause": true}`},
	{"an allocation that does not exist is stopped", "PUT", "/v1/allocation/11111111-1111-1111-1111-111111111111/stop", ""},
	{"a resource that does not exist is deleted", "DELETE", "/v1/resource/j-0000000000000009-00", ""},
	{"a job is planned", "PUT", "/v1/job/web/plan", `{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "app", "Driver": "mock_driver"}]}]}}`},
	{"an allocation that does not exist is restarted", "PUT", "/v1/client/allocation/11111111-1111-1111-1111-111111111111/restart", ""},
}

// A refusal, and an answer that nothing changes, is as linearizable as a write:
// it is given once a majority has confirmed that this server leads.
// What the log itself refuses, the log confirms (see package consensus).
func TestAnswersWithoutACommandAreConfirmed(t *testing.T) {
	for _, x := range quietWrites {
		d := &doubted{}
		s, _ := serve(t, func(c *api.Config) {
			d.leader = c.Cluster.(leader)
			c.Cluster = d
		})
		heard := ask(s, x.method, x.path, x.body)
		if d.asked == 0 {
			t.Errorf("%s: answered with %d and nobody was asked", x.name, heard.Code)
		}
		d.err = fmt.Errorf("%w: leadership changed", state.ErrLost)
		if lost := ask(s, x.method, x.path, x.body); lost.Code != http.StatusInternalServerError || lost.Header().Get(op.HeaderKind) != "no leader" {
			t.Errorf("%s: a leader that nobody confirms answers %d %s", x.name, lost.Code, lost.Body)
		}
	}
}
