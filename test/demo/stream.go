package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// roomForThree is the CPU of a node on which three processing elements of the
// examples fit, but not a fourth.
const roomForThree = "  cpu_total_compute = 160 # MHz\n"

// streamActs shows a stream application and the job that imports from it, and
// that its submission survives the loss of the leader.
func (s *stage) streamActs() []act {
	s.room = roomForThree
	return []act{
		{"Three servers and three nodes", s.startCluster},
		{"A job that imports streams which nobody exports yet", s.runAlerts},
		{"A stream application of three stages: source, three times transform, sink", s.runTelemetry},
		{"What it is made of, and who feeds whom", s.showStream},
		{"Tuples flow, and what the importing job's filter lets through raises alarms", s.showTuples},
		{"A channel is stopped by hand: the same processing element is launched again, and its peers are told", s.stopChannel},
		{"A fourth channel: elements whose connections or configuration change start again, here all of them; the job that imports from them runs on", s.widen},
		{"It is deleted in the foreground: what it owns goes first, it goes last", s.deleteTelemetry},
		{"Submitted again with room for a part of it, the server that leads is killed (kill -9) in the middle", s.interrupt},
		{"The next leader gives up the half of it and starts again; with capacity it completes", s.recover},
		{"The killed server is started again and catches up", s.bringBack},
		{"Everything is stopped", s.stopStreams},
	}
}

// standing is how far the submission of a stream job has come.
type standing struct {
	UID, Phase, State string
	StreamID          uint64
	Generation        uint64
	Expected          map[string]int
	Observed          map[string]int
	Ready             bool
	Deletion          *struct{ Policy, Intent string }
	Recovery          struct {
		Count        int
		Predecessors []string
	}
}

// pe is a processing element.
type pe struct {
	Name, UID, Connectivity string
	LaunchCount             uint64
	Allocation              *struct{ ID, NodeName, ClientStatus string }
}

// standing returns how far the objects of a stream job have come.
func (s *stage) standing(job string) (out standing, err error) {
	return out, s.get("/v1/stream/job/"+job, &out)
}

// pes returns the processing elements of a job.
func (s *stage) pes(job string) (out []pe, err error) {
	return out, s.get("/v1/stream/pes?job="+job, &out)
}

// ready waits until all connections of a job exist.
func (s *stage) ready(job string) error {
	return until(s.ctx, "job "+job+" is ready", func() (bool, error) {
		now, err := s.standing(job)
		return now.Ready, err
	})
}

// streamFile returns the path of an example's job file, as a user types it.
func (s *stage) streamFile(name string) string { return filepath.Join(s.examples, "stream", name) }

// submit runs a stream job from a file of the examples.
func (s *stage) submit(file string, more ...string) error {
	args := append([]string{"job", "run", "-var", "programs=" + s.programs}, more...)
	_, err := s.show(append(args, s.streamFile(file))...)
	return err
}

// runAlerts runs the job that imports what the other one will export.
func (s *stage) runAlerts() error {
	if err := s.submit("alerts.berth.hcl"); err != nil {
		return err
	}
	_, err := s.show("stream", "routes")
	return err
}

// runTelemetry runs the exporting job and checks that its submission is
// complete and each processing element was launched once.
func (s *stage) runTelemetry() error {
	if err := s.submit("telemetry.berth.hcl"); err != nil {
		return err
	}
	if err := s.ready("telemetry"); err != nil {
		return err
	}
	if _, err := s.show("stream", "status", "telemetry"); err != nil {
		return err
	}
	now, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	if now.Phase != "Submitted" || now.Generation != 0 || now.Recovery.Count != 0 || len(now.Expected) == 0 || fmt.Sprint(now.Expected) != fmt.Sprint(now.Observed) {
		return fmt.Errorf("the submission is not whole: %+v", now)
	}
	return s.launched("telemetry", map[string]uint64{
		"telemetry.source[0]": 1, "telemetry.transform[0]": 1, "telemetry.transform[1]": 1, "telemetry.transform[2]": 1, "telemetry.sink[0]": 1,
	})
}

// launched checks which processing elements a job has, that each runs, and how
// often it was launched.
func (s *stage) launched(job string, want map[string]uint64) error {
	all, err := s.pes(job)
	if err != nil {
		return err
	}
	got := map[string]uint64{}
	for _, p := range all {
		got[p.Name] = p.LaunchCount
		if p.Allocation == nil || p.Allocation.ClientStatus != "running" {
			return fmt.Errorf("%s does not run: %+v", p.Name, p.Allocation)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("launches are %v, and should be %v", got, want)
	}
	return nil
}

// showStream shows the objects and the routes and checks how many routes there
// are.
func (s *stage) showStream() error {
	if err := s.look("job tree telemetry", "stream routes"); err != nil {
		return err
	}
	return s.routes(3, 1)
}

// routes checks how many routes there are by name and by property.
func (s *stage) routes(byName, byProperty int) error {
	var all []struct{ By string }
	if err := s.get("/v1/stream/routes?job=alerts", &all); err != nil {
		return err
	}
	count := map[string]int{}
	for _, r := range all {
		count[r.By]++
	}
	if count["name"] != byName || count["property"] != byProperty {
		return fmt.Errorf("routes are %v; there should be %d by name and %d by property", count, byName, byProperty)
	}
	return nil
}

// showTuples waits until data has flowed through both jobs and shows some of
// it.
func (s *stage) showTuples() error {
	if err := s.ready("alerts"); err != nil {
		return err
	}
	err := until(s.ctx, "there is an alarm", func() (bool, error) {
		out, err := s.command("alloc", "logs", "-job", "alerts")
		return strings.Contains(out, "alarm: ") && strings.Contains(out, "raw tuples: "), err
	})
	if err != nil {
		return err
	}
	_, err = s.show("alloc", "logs", "-tail", "-n", "4", "-job", "alerts")
	return err
}

// stopChannel stops an allocation of a parallel channel and checks that its
// processing element is launched again with its identity and its routes.
func (s *stage) stopChannel() error {
	before, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	old, err := s.channel()
	if err != nil {
		return err
	}
	if _, err := s.show("alloc", "stop", old.Allocation.ID[:8]); err != nil {
		return err
	}
	var now pe
	err = until(s.ctx, "the channel runs again", func() (bool, error) {
		now, err = s.channel()
		return now.LaunchCount == 2 && now.Allocation != nil && now.Allocation.ClientStatus == "running" && now.Connectivity == "full", err
	})
	if err != nil {
		return err
	}
	if err := s.ready("telemetry"); err != nil {
		return err
	}
	if _, err := s.show("stream", "pes", "telemetry"); err != nil {
		return err
	}
	if _, err := s.show("alloc", "logs", "-tail", "-n", "6", "-job", "telemetry", "-group", "source"); err != nil {
		return err
	}
	after, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	// The identity stays and the allocation changes; the submission is not
	// touched.
	if now.UID != old.UID || now.Allocation.ID == old.Allocation.ID || after.UID != before.UID || after.Generation != 0 || after.Phase != "Submitted" {
		return fmt.Errorf("the channel was %+v and is %+v; the job was %+v and is %+v", old, now, before, after)
	}
	return nil
}

// channel returns the processing element that stopChannel stops.
func (s *stage) channel() (pe, error) {
	all, err := s.pes("telemetry")
	for _, p := range all {
		if p.Name == "telemetry.transform[1]" {
			return p, err
		}
	}
	return pe{}, errors.Join(err, errors.New("there is no telemetry.transform[1]"))
}

// widen adds channels to the parallel region and checks that what existed
// before is kept.
func (s *stage) widen() error {
	before, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	importer, err := s.pes("alerts")
	if err != nil {
		return err
	}
	if _, err := s.show("stream", "region", "telemetry", "score", "4"); err != nil {
		return err
	}
	if err := s.ready("telemetry"); err != nil {
		return err
	}
	if err := s.look("stream status telemetry", "stream routes"); err != nil {
		return err
	}
	now, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	// A change of the width is a new generation of the same job.
	if now.UID != before.UID || now.Generation != 1 || now.Phase != "Submitted" {
		return fmt.Errorf("the job is %+v, and was %+v", now, before)
	}
	// Elements whose connections or configuration changed were launched again;
	// the new one once.
	err = s.launched("telemetry", map[string]uint64{
		"telemetry.source[0]": 2, "telemetry.transform[0]": 2, "telemetry.transform[1]": 3, "telemetry.transform[2]": 2, "telemetry.transform[3]": 1, "telemetry.sink[0]": 2,
	})
	if err != nil {
		return err
	}
	after, err := s.pes("alerts")
	if err != nil {
		return err
	}
	// The importing job finds the new channel by itself.
	if len(after) != 1 || len(importer) != 1 || after[0].LaunchCount != 1 || after[0].Allocation == nil || after[0].Allocation.ID != importer[0].Allocation.ID {
		return fmt.Errorf("the importing job was not to be touched: %+v", after)
	}
	return s.routes(4, 1)
}

// deleteTelemetry deletes the exporting job and checks that its objects go
// before it does.
func (s *stage) deleteTelemetry() error {
	old, err := s.standing("telemetry")
	if err != nil {
		return err
	}
	from, err := s.index()
	if err != nil {
		return err
	}
	if _, err := s.show("job", "stop", "-purge", "-propagation", "foreground", "telemetry"); err != nil {
		return err
	}
	// The job itself is the last to go.
	all, err := s.changes(from+1, func(c *change) bool { return c.UID == old.UID && c.Type == "Deleted" })
	if err != nil {
		return err
	}
	s.showChanges(from+1, all)
	if err := ownerLast(all, old.UID); err != nil {
		return err
	}
	if _, err := s.standing("telemetry"); err == nil || !strings.Contains(err.Error(), "404") {
		return fmt.Errorf("the job is still there: %w", err)
	}
	return s.routes(0, 0)
}

// interrupt submits a job that finds too little capacity, so that its
// submission stops halfway, and then replaces the leader.
func (s *stage) interrupt() error {
	// With one node left only a part of the job fits.
	for _, n := range []string{"n2", "n3"} {
		if _, err := s.show("node", "eligibility", "-disable", n); err != nil {
			return err
		}
	}
	from, err := s.index()
	if err != nil {
		return err
	}
	s.from = from + 1
	if err := s.submit("telemetry.berth.hcl", "-detach"); err != nil {
		return err
	}
	err = until(s.ctx, "a part of it is placed", func() (bool, error) {
		if s.half, err = s.standing("telemetry"); err != nil {
			return false, err
		}
		// The one that is placed next waits for room.
		var evals []struct{ Status string }
		err := s.get("/v1/job/telemetry/evaluations", &evals)
		waits := slices.ContainsFunc(evals, func(e struct{ Status string }) bool { return e.Status == "blocked" })
		return s.half.State == "wait-allocs" && s.half.Observed["Allocation"] > 0 && waits, err
	})
	if err != nil {
		return err
	}
	if _, err := s.show("stream", "status", "telemetry"); err != nil {
		return err
	}
	if n := s.half.Observed["Allocation"]; s.half.Phase != "Submission" || n >= 5 {
		return fmt.Errorf("it is not in the middle of its submission: %+v", s.half)
	}
	return s.replaceLeader(func() error { return nil })
}

// recover checks that the new leader undid the interrupted submission and made
// it again.
func (s *stage) recover() error {
	var now standing
	err := until(s.ctx, "another incarnation has taken its place", func() (bool, error) {
		var err error
		now, err = s.standing("telemetry")
		return err == nil && now.UID != s.half.UID && now.Observed["Allocation"] > 0, err
	})
	if err != nil {
		return err
	}
	// Now there is capacity for the second submission.
	for _, n := range []string{"n2", "n3"} {
		if _, err := s.show("node", "eligibility", "-enable", n); err != nil {
			return err
		}
	}
	if err := s.ready("telemetry"); err != nil {
		return err
	}
	if err := s.look("stream status telemetry", "stream routes"); err != nil {
		return err
	}
	if now, err = s.standing("telemetry"); err != nil {
		return err
	}
	// The new incarnation remembers the one that it follows.
	if now.Phase != "Submitted" || now.Generation != 0 || now.Recovery.Count != 1 || fmt.Sprint(now.Recovery.Predecessors) != "["+s.half.UID+"]" {
		return fmt.Errorf("it was not recovered once from %s: %+v", s.half.UID, now)
	}
	err = s.launched("telemetry", map[string]uint64{
		"telemetry.source[0]": 1, "telemetry.transform[0]": 1, "telemetry.transform[1]": 1, "telemetry.transform[2]": 1, "telemetry.sink[0]": 1,
	})
	if err != nil {
		return err
	}
	if err := s.routes(3, 1); err != nil {
		return err
	}
	all, err := s.changes(s.from, func(c *change) bool { return c.UID == now.UID && c.Cause == "complete" })
	if err != nil {
		return err
	}
	s.showChanges(s.from, all)
	if err := ownerLast(all, s.half.UID); err != nil {
		return err
	}
	return successor(all, s.half.UID, now.UID)
}

// stopStreams deletes both jobs and checks that nothing is left.
func (s *stage) stopStreams() error {
	for _, job := range []string{"telemetry", "alerts"} {
		if _, err := s.show("job", "stop", "-purge", "-propagation", "foreground", job); err != nil {
			return err
		}
	}
	if err := s.look("stream pes", "resource list", "status"); err != nil {
		return err
	}
	return s.left()
}
