package statetest

import (
	"cmp"
	"fmt"
	"slices"

	"berth"
	"berth/internal/admit"
	"berth/internal/state"
	"berth/internal/streams"

	"pgregory.net/rapid"
)

// StreamText returns a stream job as JSON: a source, which exports what it
// makes, and a parallel region with width channels, which imports something
// besides. What the channels do follows from cpu. The source is on nodes of a
// pool that is described by pool, as JSON, unless that is "".
func StreamText(id string, width, cpu int, pool string) string {
	place, pools := "", ""
	if pool != "" {
		place, pools = `, "Placement": {"Pool": "p"}`, `, "HostPools": [`+pool+`]`
	}
	group := func(name, stream string, cpu int) string {
		return fmt.Sprintf(`{"Name": %q, "Stream": {%s}, "EphemeralDisk": {"SizeMB": 20}, "Networks": [{"DynamicPorts": [{"Label": "in"}]}],
			"Tasks": [{"Name": "task", "Driver": "mock_driver", "Resources": {"CPU": %d, "MemoryMB": 50}, "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1}}]}`, name, stream, cpu)
	}
	return fmt.Sprintf(`{"ID": %q, "Type": "stream", "Stream": {
		"Regions": [{"Name": "r", "Groups": ["work"], "Width": %d}], "Streams": [{"Name": "s", "From": "src.out", "To": ["work.in"]}],
		"Exports": [{"Name": "e", "From": "src.out", "Properties": {"kind": "raw"}}], "Imports": [{"Name": "i", "Into": "work.in", "StreamID": "scores"}]%s},
		"TaskGroups": [%s, %s]}`, id, width, pools,
		group("src", `"Outputs": [{"Name": "out"}]`+place, 100), group("work", `"Inputs": [{"Name": "in", "Port": "in"}]`, cpu))
}

// pools are host pools to draw from: with tagged or named nodes, shared or
// exclusive.
var pools = []string{
	"", "", `{"Name": "p", "Tags": ["a"]}`, `{"Name": "p", "Hosts": ["n1", "n2"]}`, `{"Name": "p", "Hosts": ["n2", "n3"], "Mode": "exclusive"}`,
}

// streamKey draws one of two names of stream jobs.
func streamKey(t *rapid.T) berth.JobKey {
	return berth.JobKey{Namespace: berth.DefaultNamespace, ID: berth.JobID(fmt.Sprint("flow", rapid.IntRange(0, 1).Draw(t, "flow")))}
}

// Stream draws a command about a stream job: usually the next one that its
// submission needs, otherwise any command that a user could send or that comes
// too late.
func (r *Random) Stream(t *rapid.T, s *state.Snapshot) state.Command {
	r.now += int64(rapid.IntRange(1, 1000).Draw(t, "time"))
	rows := slices.Collect(s.StreamJobs())
	if len(rows) == 0 {
		return r.registerStream(t, s)
	}
	row := rapid.SampledFrom(rows).Draw(t, "submission")
	// Mostly the next step of a submission, or few would ever be complete.
	if rapid.IntRange(0, 9).Draw(t, "goes on") < 8 {
		if c := r.onward(t, s, row); c != nil {
			return c
		}
	}
	switch rapid.IntRange(0, 17).Draw(t, "of a stream job") {
	case 0, 1, 2:
		return r.registerStream(t, s)
	case 3, 4:
		return r.planned(t, s, row)
	case 5:
		if c := r.ensures(t, s, row); c != nil {
			return c
		}
	case 6:
		if c := r.launches(t, s, row); c != nil {
			return c
		}
	case 7:
		c := &state.CompleteSubmission{Key: row.Key, UID: row.UID, Generation: row.Generation, Now: r.now}
		c.Stamp(r.term(t, s))
		return c
	case 8, 9:
		if res := r.resource(t, s); res != nil {
			return &state.DeleteResource{UID: res.UID, Propagation: rapid.SampledFrom(append(berth.Propagations, berth.Background)).Draw(t, "propagation"), Now: r.now}
		}
	case 10:
		return r.collects(t, s, row, true)
	case 11:
		return r.connects(t, s)
	case 12:
		c := &state.RecoverJobs{Jobs: []state.JobRef{{Key: row.Key, UID: row.UID}}, Cause: rapid.SampledFrom([]string{state.RecoverInterrupted, state.RecoverTimeout}).Draw(t, "cause"), Now: r.now}
		c.Stamp(r.term(t, s))
		return c
	case 13:
		c := &state.FailSubmission{Key: row.Key, UID: row.UID, Error: "drawn", Now: r.now}
		c.Stamp(r.term(t, s))
		return c
	case 14:
		return r.endsStream(t, s, row)
	case 15:
		for a := range s.AllocsOf(row.Key) {
			if rapid.Bool().Draw(t, "this one") {
				return &state.StopAlloc{ID: a.ID, Eval: state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerAllocStop, Cause: berth.Cause{Kind: berth.CauseUser}}, Now: r.now}
			}
		}
	}
	if res := r.resource(t, s); res != nil && rapid.IntRange(0, 2).Draw(t, "another content") == 0 {
		return r.changes(t, res)
	}
	seed := state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobScaling, Cause: berth.Cause{Kind: berth.CauseUser}}
	if rapid.Bool().Draw(t, "revert") {
		return &state.RevertJob{Key: row.Key, Version: uint64(rapid.IntRange(0, 3).Draw(t, "to version")), Eval: seed, Now: r.now}
	}
	return &state.ScaleJob{
		Key: row.Key, Group: rapid.SampledFrom([]string{"work", "work", "src"}).Draw(t, "group"), Change: true, Count: int64(rapid.IntRange(0, 3).Draw(t, "width")), Eval: seed, Now: r.now,
	}
}

// term draws the term of a leader's command, usually the current one.
func (r *Random) term(t *rapid.T, s *state.Snapshot) uint64 {
	if s.Term > 0 && rapid.IntRange(0, 9).Draw(t, "deposed") == 0 {
		return s.Term - 1
	}
	return s.Term
}

// registerStream draws a registration of a stream job, sometimes under the name
// of another type's job, which is refused.
func (r *Random) registerStream(t *rapid.T, s *state.Snapshot) state.Command {
	k := streamKey(t)
	text := StreamText(string(k.ID), rapid.IntRange(1, 3).Draw(t, "width"), rapid.IntRange(1, 2).Draw(t, "cpu")*100, rapid.SampledFrom(pools).Draw(t, "pool"))
	j, err := admit.ParseJob([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 19).Draw(t, "another type") == 0 { // refused
		k.ID = jobName(t)
		j.ID = k.ID
	}
	c := &state.RegisterJob{Job: j, PreserveCounts: rapid.IntRange(0, 3).Draw(t, "preserve counts") == 0, Now: r.now}
	if rapid.Bool().Draw(t, "text") {
		c.Submission = &berth.JobSubmission{Source: text, Format: "json"}
	}
	if old := s.Job(k); old != nil && rapid.IntRange(0, 3).Draw(t, "enforce") == 0 {
		c.Enforce, c.Index = true, old.JobModifyIndex-uint64(rapid.IntRange(0, 1).Draw(t, "older"))
	}
	return c
}

// onward draws the next command that a submission needs, or nil.
func (r *Random) onward(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	if !s.AliveStream(row) {
		if c := r.collects(t, s, row, false); c != nil {
			return c
		}
		for a := range s.AllocsOf(row.Key) {
			if a.Job.UID == row.UID && !a.Ended() {
				return r.ends(t, a)
			}
		}
		if d := s.Deletion(row.Key); d != nil && d.UID == row.UID {
			return r.finalize(t, s)
		}
		return nil
	}
	if j := s.Job(row.Key); row.Plan == nil || row.Phase == berth.PhaseSubmitted && j.Version > row.Version {
		return r.planned(t, s, row)
	}
	if c := r.ensures(t, s, row); c != nil {
		return c
	}
	if c := r.launches(t, s, row); c != nil {
		return c
	}
	if c := r.placesPE(t, s, row); c != nil {
		return c
	}
	if c := r.collects(t, s, row, false); c != nil {
		return c
	}
	if row.Phase == berth.PhaseSubmission {
		c := &state.CompleteSubmission{Key: row.Key, UID: row.UID, Generation: row.Generation, Now: r.now}
		c.Stamp(r.term(t, s))
		return c
	}
	return nil
}

// ends draws an agent's report that an allocation ended.
func (r *Random) ends(t *rapid.T, a *berth.Alloc) state.Command {
	how := rapid.SampledFrom([]berth.ClientStatus{berth.ClientComplete, berth.ClientFailed, berth.ClientLost}).Draw(t, "how")
	return &state.ReportAllocs{Node: a.NodeID, Updates: []state.AllocUpdate{{ID: a.ID, Client: how}}, Now: r.now}
}

// Planned returns the next plan of a submission.
func Planned(s *state.Snapshot, row *berth.StreamJob) (*berth.StreamPlan, error) {
	j := s.Job(row.Key)
	if j == nil || j.Stream == nil {
		return &berth.StreamPlan{}, nil
	}
	return streams.Expand(j, row.Plan)
}

// planned returns the command with a job's plan of objects. One in ten has a
// wrong version, and is refused.
func (r *Random) planned(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	p, err := Planned(s, row)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.IntRange(0, 9).Draw(t, "a wrong one") == 0 {
		p.Version++
	}
	c := &state.PlanSubmission{Key: row.Key, UID: row.UID, Plan: p, Deadline: r.now + 1000, Now: r.now}
	c.Stamp(r.term(t, s))
	return c
}

// ensures draws the creation of all or some objects of the first kind that is
// incomplete, or nil if none is.
func (r *Random) ensures(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	for _, kind := range berth.StreamKinds {
		var names []string
		for _, o := range row.Plan.Of(kind) {
			if old := s.ResourceNamed(row.UID, kind, o.Name); old == nil || old.Generation != row.Generation || old.Hash != o.Hash {
				names = append(names, o.Name)
			}
		}
		if names == nil {
			continue
		}
		c := &state.EnsureResources{Key: row.Key, UID: row.UID, Generation: row.Generation, Kind: kind, Now: r.now}
		c.Names = names[rapid.IntRange(0, len(names)-1).Draw(t, "skip"):]
		if rapid.IntRange(0, 19).Draw(t, "not planned") == 0 {
			c.Names = append(c.Names, "another")
		}
		if kind == berth.KindHostPool {
			for range c.Names {
				c.Nodes = append(c.Nodes, rapid.SliceOfNDistinct(rapid.Map(rapid.IntRange(1, 5), func(n int) berth.NodeID { return ID[berth.Node](n) }), 1, 2, rapid.ID).Draw(t, "nodes"))
			}
		}
		c.Stamp(r.term(t, s))
		return c
	}
	return nil
}

// launches draws the launch of a processing element that needs one, or
// sometimes of any.
func (r *Random) launches(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	reckless := rapid.IntRange(0, 9).Draw(t, "reckless") == 0
	for pe := range s.ResourcesOf(row.UID, berth.KindPE) {
		due := pe.PE.Launch == 0 || pe.PE.ContentID != pe.Object.PE.ContentID
		for a := range s.AllocsOfPE(pe) {
			due = due || !a.Live() && a.Rest().PE.Launch == pe.PE.Launch
		}
		if !due && !reckless {
			continue
		}
		c := &state.LaunchPE{PE: pe.UID, Expect: pe.PE.Launch, Generation: row.Generation, Why: "drawn", Now: r.now}
		if rapid.IntRange(0, 9).Draw(t, "late") == 0 {
			c.Expect++
		}
		c.Eval.ID = r.id()
		c.Stamp(r.term(t, s))
		return c
	}
	return nil
}

// placesPE draws a plan that places the launched processing elements of a job.
func (r *Random) placesPE(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	var open *berth.Eval
	for e := range s.EvalsOf(row.Key) {
		if e.JobUID == row.UID && !e.Terminal() && (open == nil || cmp.Or(cmp.Compare(e.CreateIndex, open.CreateIndex), slices.Compare(e.ID[:], open.ID[:])) < 0) {
			open = e
		}
	}
	due := state.ApplyPlan{JobVersion: row.Version, Now: r.now}
	job := s.PlannedJob(row)
	for pe := range s.ResourcesOf(row.UID, berth.KindPE) {
		placed := pe.PE.Launch == 0
		for a := range s.AllocsOfPE(pe) {
			placed = placed || a.Rest().PE.Launch == pe.PE.Launch
		}
		g := slices.IndexFunc(job.TaskGroups, func(g *berth.TaskGroup) bool { return g.Name == pe.Object.PE.Group })
		if placed && rapid.IntRange(0, 9).Draw(t, "again") > 0 || g < 0 {
			continue
		}
		p := berth.Placement{Group: g, Index: pe.Object.PE.Index, NodeID: ID[berth.Node](rapid.IntRange(1, 5).Draw(t, "node"))}
		p.Ports = []uint16{uint16(rapid.IntRange(20000, 20100).Draw(t, "port"))}
		due.Place = append(due.Place, p)
	}
	switch {
	case due.Place == nil:
		return nil
	case open == nil:
		return &state.CreateEvals{Now: r.now, Evals: []state.EvalFor{{Key: row.Key, EvalSeed: state.EvalSeed{
			ID: r.id(), TriggeredBy: berth.TriggerPELaunch, Cause: berth.Cause{Kind: berth.CauseSystem},
		}}}}
	}
	due.Eval = open.ID
	due.End = &state.EvalEnd{Status: berth.EvalComplete, SnapshotIndex: s.Index}
	due.Stamp(r.term(t, s))
	return &due
}

// collects draws the removal of resources that are no longer planned, or nil if
// there are none; of any resources if reckless.
func (r *Random) collects(t *rapid.T, s *state.Snapshot, row *berth.StreamJob, reckless bool) state.Command {
	c := &state.CollectResources{}
	for res := range s.ResourcesOf(row.UID, "") {
		free := !s.Managed(res) || state.Swept(row, res)
		if res.PE != nil && s.PEOccupies(res) {
			free = false
		}
		if (free || reckless) && rapid.IntRange(0, 3).Draw(t, "this one") > 0 {
			c.UIDs = append(c.UIDs, res.UID)
		}
	}
	if c.UIDs == nil && !reckless {
		return nil
	}
	c.Stamp(r.term(t, s))
	return c
}

// resource draws one of the objects, or returns nil if no job has any.
func (r *Random) resource(t *rapid.T, s *state.Snapshot) *berth.Object {
	all := slices.Collect(s.Resources())
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "resource")
}

// changes draws a change of an export's properties or an import's subscription;
// for other kinds it is refused.
func (r *Random) changes(t *rapid.T, res *berth.Object) state.Command {
	if res.Kind == berth.KindImport {
		filter := rapid.SampledFrom([]string{"", "score > 0.5", "score >"}).Draw(t, "filter") // the last is refused
		return &state.SetImport{UID: res.UID, Filter: &filter, Now: r.now}
	}
	return &state.SetExport{UID: res.UID, Properties: map[string]any{"kind": "raw", "priority": int64(rapid.IntRange(0, 3).Draw(t, "priority"))}, Now: r.now}
}

// connects draws a report of a processing element's connectivity, of an odd
// state or an unknown allocation among others.
func (r *Random) connects(t *rapid.T, s *state.Snapshot) state.Command {
	c := &state.SetConnectivity{Launch: 1, State: rapid.SampledFrom([]string{berth.ConnectivityFull, berth.ConnectivityPartial, berth.ConnectivityNone, "odd"}).Draw(t, "connectivity"), Now: r.now}
	for a := range s.Allocs() {
		if ref := a.Rest().PE; ref != nil && rapid.Bool().Draw(t, "this one") {
			c.Alloc, c.PE, c.Launch = a.ID, ref.UID, ref.Launch
		}
	}
	return c
}

// endsStream draws that a user stops or deletes a stream job.
func (r *Random) endsStream(t *rapid.T, s *state.Snapshot, row *berth.StreamJob) state.Command {
	seed := state.EvalSeed{ID: r.id(), TriggeredBy: berth.TriggerJobDeregister, Cause: berth.Cause{Kind: berth.CauseUser}}
	if rapid.IntRange(0, 2).Draw(t, "stop alone") == 0 {
		return &state.StopJob{Key: row.Key, Eval: seed, Now: r.now}
	}
	c := &state.DeleteJob{
		Key: row.Key, Policy: rapid.SampledFrom(berth.Propagations).Draw(t, "propagation"), Intent: berth.IntentUser, Eval: seed, Now: r.now,
	}
	c.Force = c.Policy == berth.Foreground && rapid.IntRange(0, 3).Draw(t, "force") == 0
	if rapid.Bool().Draw(t, "by uid") {
		c.UID = row.UID
	}
	return c
}

// Streams draws the commands about stream jobs and about the nodes and agents
// that they depend on.
func (r *Random) Streams(t *rapid.T, s *state.Snapshot) state.Command {
	switch rapid.IntRange(0, 19).Draw(t, "who") {
	case 0:
		return r.node(t, s)
	case 1:
		return r.status(t, s)
	case 2, 3, 4:
		return r.report(t, s)
	case 5:
		return r.begins(t, s)
	case 6:
		return r.finalize(t, s)
	case 7:
		return r.About(t, s)
	}
	return r.Stream(t, s)
}
