package state_test

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"berth"
	"berth/internal/invariant"
	"berth/internal/state"
	"berth/internal/state/codec"
	"berth/internal/state/statetest"

	"pgregory.net/rapid"
)

// The model of which stream jobs there are: what users registered, less what
// they deleted. Whatever happens to them in between, commands of leaders that
// are none any more, commands that come twice and servers that start again from
// a snapshot included, a job that nobody deleted is there after each command,
// one that a user deleted is not, and two servers have the same state.
func TestStreamsAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := statetest.Random{}
		one, two := state.New().Snapshot(), state.New().Snapshot()
		there := map[berth.JobKey]bool{}
		doomed := map[berth.JobKey]bool{} // of those: a user deleted it in the foreground
		step := func(c state.Command) (applied bool) {
			tx := state.Begin(one)
			r := tx.Apply(c)
			if r.Err != nil {
				if tx.Hash() != one.Hash() {
					t.Fatalf("%T was refused, %v, and changed the state", c, r.Err)
				}
				return false
			}
			entry := codec.EncodeEntry(state.AppendCommand(nil, c))
			before, batch := one, tx.End()
			one, two = batch.Snapshot, replay(t, two, entry)
			if rapid.IntRange(0, 19).Draw(t, "restart") == 0 {
				two = restarted(t, two)
			}
			switch c := c.(type) {
			case *state.RegisterJob:
				there[c.Job.Key()] = true
			case *state.DeleteJob:
				there[c.Key], doomed[c.Key] = c.Policy == berth.Foreground, c.Policy == berth.Foreground
			case *state.FinalizeDeletions:
				for _, ref := range c.Jobs {
					if d := before.Deletion(ref.Key); d != nil && d.UID == ref.UID && doomed[ref.Key] {
						there[ref.Key], doomed[ref.Key] = false, false
					}
				}
			}
			for k, is := range there {
				if (one.Job(k) != nil) != is {
					t.Fatalf("%T: job %s is there: %v; wanted is %v", c, k, !is, is)
				}
			}
			found := slices.Concat(invariant.Check(one), invariant.Changed(before, batch.Changes), invariant.Between(before, one), invariant.Step(before, one))
			if len(found) > 0 {
				t.Fatalf("%T: %v", c, found)
			}
			noticed(t, c, before.Index, batch.Changes, one)
			noticed(t, c, before.Index, batch.Changes, two)
			if one.Hash() != two.Hash() {
				t.Fatalf("%T: the servers differ:\n%s", c, diff(one, two))
			}
			return true
		}
		for n := range 5 {
			step(statetest.AddNode(n+1, int64((n+1)%4+1)*1000, 4000)) // as it is drawn again
		}
		for range rapid.IntRange(30, 90).Draw(t, "commands") {
			c := draw.Streams(t, one)
			if step(c) && rapid.IntRange(0, 9).Draw(t, "twice") == 0 {
				if _, leads := c.(interface{ Stamp(uint64) }); leads {
					step(again(t, c))
				}
			}
		}
	})
}

// noticed fails unless what a command changed for a stream job is noted with it.
// Of a server that started over all is.
func noticed(t *rapid.T, c state.Command, since uint64, changes []state.Change, after *state.Snapshot) {
	changed := map[berth.UID]bool{}
	for _, x := range changes {
		for _, v := range []any{x.Old, x.New} {
			switch v := v.(type) {
			case *berth.StreamJob:
				changed[v.UID] = true
			case *berth.Job:
				changed[v.UID] = true
			case *berth.Object:
				changed[v.Owner] = true
			case *berth.Alloc:
				changed[v.Job.UID] = true
			case *berth.Eval:
				changed[v.JobUID] = true
			}
		}
	}
	list := after.StreamJobsSince(since)
	for row := range after.StreamJobs() {
		j := after.Job(row.Key)
		gone := j == nil || j.UID != row.UID
		if (changed[row.UID] || gone) && !slices.Contains(list, row) {
			t.Fatalf("%T changed something of job %s, %v, and it is not noted", c, row.Key, row.UID)
		}
		if gone && !slices.Contains(after.StreamJobsSince(after.Index), row) {
			t.Fatalf("%T: job %s, %v, is gone, and what happens to it may be missed", c, row.Key, row.UID)
		}
	}
	if quiet := after.StreamJobsSince(after.Index); !slices.IsSortedFunc(list, oldest) || slices.ContainsFunc(quiet, func(row *berth.StreamJob) bool {
		j := after.Job(row.Key)
		return j != nil && j.UID == row.UID
	}) {
		t.Fatalf("%T: noted are %v, and nothing after that %v", c, list, quiet)
	}
}

func oldest(a, b *berth.StreamJob) int { return cmp.Compare(a.UID.Index, b.UID.Index) }

// again returns a command as the log has it.
func again(t *rapid.T, c state.Command) state.Command {
	cmds, err := state.DecodeEntry(codec.EncodeEntry(state.AppendCommand(nil, c)))
	if err != nil {
		t.Fatal(err)
	}
	return cmds[0]
}

// restarted returns a state as a server has it that starts from a snapshot.
func restarted(t *rapid.T, s *state.Snapshot) *state.Snapshot {
	var saved bytes.Buffer
	if err := s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	loaded, err := state.Load(&saved)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
