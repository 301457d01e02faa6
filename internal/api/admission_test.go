package api

import (
	"testing"
	"testing/synctest"
	"time"

	"berth"
	_ "berth/internal/onethread"
	"berth/op"
)

// While the log does not keep up, writes of users are refused. Those of agents
// and operators are not.
func TestWritesOfUsersAreRefusedWhileTheLogIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a admission
		leave, err := a.enter(op.Register.Info, Caller{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(maxCommitTime - time.Nanosecond)
		second, err := a.enter(op.Register.Info, Caller{})
		if err != nil {
			t.Errorf("before the limit: %v", err)
		}
		time.Sleep(time.Nanosecond)
		for name, c := range map[string]struct {
			info *op.Info
			who  Caller
			want berth.Kind
		}{
			"a user":                        {op.Register.Info, Caller{}, berth.Limited},
			"an agent over RPC":             {op.AllocReporter.Info, Caller{Conn: theirs{}}, ""},
			"an agent through a follower":   {op.NodeBeat.Info, Caller{}, ""},
			"an operator, to stop the rest": {op.WriteScheduler.Info, Caller{}, ""},
			"an operator, about a node":     {op.DrainNode.Info, Caller{}, ""},
		} {
			leave, err := a.enter(c.info, c.who)
			if berth.KindOf(err) != c.want {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				leave()
			}
		}
		leave()
		third, err := a.enter(op.Register.Info, Caller{})
		if err != nil {
			t.Errorf("after the oldest: %v", err)
		}
		second()
		third()
		if n := a.waiting.Len(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// Their number is limited, too.
func TestTheNumberOfWritesInProgress(t *testing.T) {
	var a admission
	for range maxCommits {
		if _, err := a.enter(op.Register.Info, Caller{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.enter(op.Register.Info, Caller{}); berth.KindOf(err) != berth.Limited {
		t.Error(err)
	}
}

// theirs is a call of an agent.
type theirs struct{ RPC }
