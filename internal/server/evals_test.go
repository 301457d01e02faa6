package server_test

import (
	"testing"
	"time"

	"berth"
	"berth/internal/wire"
	"berth/op"

	nomad "github.com/hashicorp/nomad/api"
)

// An answer that the workers of another server did not get holds nothing: when
// they begin anew, over the same connection, they are handed it once more.
func TestWorkersThatBeganAnew(t *testing.T) {
	c := &several{t: t, pool: &pool{}, dirs: []string{t.TempDir()}, workers: -1}
	r := c.add(0, 1, "127.0.0.1:0")
	c.leader()
	reg := must[*nomad.JobRegisterResponse, *nomad.WriteMeta](t)
	id := reg(r.api.Jobs().Register(sleeper("web", 1), nil)).EvalID
	sess, err := wire.Dial(t.Context(), r.rpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	ask := func(life uint64, wait time.Duration) (out op.DequeuedEvals) {
		t.Helper()
		in := &op.DequeueEvals{Query: op.Query{MinQueryIndex: 1, MaxQueryTime: wait}, Schedulers: []string{berth.TypeService, berth.TypeBatch}, Most: 8, Life: life}
		if err := sess.Call(t.Context(), op.EvalDequeue.RPC, in, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if first := ask(1, 20*time.Second); len(first.Evals) != 1 || first.Evals[0].EvalID.String() != id {
		t.Fatalf("%+v", first)
	}
	if again := ask(1, 50*time.Millisecond); len(again.Evals) != 0 {
		t.Errorf("what is held was handed out: %+v", again)
	}
	if anew := ask(2, 20*time.Second); len(anew.Evals) != 1 || anew.Evals[0].Count != 2 {
		t.Errorf("%+v", anew)
	}
}
