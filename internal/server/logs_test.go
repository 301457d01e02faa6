package server_test

import (
	"log/slog"
	"testing"

	"berth/internal/server"

	nomad "github.com/hashicorp/nomad/api"
)

// What the services of a leader have to tell stands in the server's log.
func TestWhatTheLeaderDoesIsLogged(t *testing.T) {
	var told shared
	r := startWith(t, t.TempDir(), func(c *server.Config) { c.Logger = slog.New(slog.NewTextHandler(&told, nil)) })
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	stop := must[string, *nomad.WriteMeta](t)
	r.settled(reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID)
	r.settled(stop(r.api.Jobs().Deregister("web", false, nil)))
	if err := r.api.System().GarbageCollect(); err != nil {
		t.Fatal(err)
	}
	e := r.collected(1)
	if n := told.count(`msg="what nothing needs any more was deleted" eval=` + e.ID.String()); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}
