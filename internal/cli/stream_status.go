package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

// streamStatusCommand shows how far a submission has come and how its
// processing elements are connected.
func streamStatusCommand() *command {
	return &command{
		name: "stream status", args: "[job]", synopsis: "Show the submission status of a stream job", max: 1,
		example: "stream status wordcount",
		help: `Without an argument, lists the jobs of type stream. With a job's ID or prefix, shows its phase, what its submission is waiting
			for, how many objects of each kind are planned and exist, what is missing, and its processing elements with their launch counts
			and connectivity.

			A job is ready when it has been submitted and every processing element is running with all its connections established.`,
		setup: func(f *flags) action {
			s := streamStatus{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return s.run
		},
	}
}

// streamStatus holds the flags of "stream status".
type streamStatus struct {
	data    dataFlags
	verbose *bool
}

// streamData is what -json shows of a stream job.
type streamData struct {
	op.StreamStanding
	PEs []op.PE
}

// run prints the list or the page of one job. Standing and processing elements
// are read one after the other, so they may differ for a moment.
func (s streamStatus) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return s.list(ctx, c)
	}
	j, err := c.findStreamJob(ctx, c.args[0])
	if err != nil {
		return err
	}
	var d streamData
	if d.StreamStanding, _, err = client.Call(ctx, c.client, op.ReadStreamJob, op.StreamJobRef{JobID: string(j.ID), Query: of(&j)}); err != nil {
		return err
	}
	if d.PEs, err = c.pesOf(ctx, string(j.ID), j.Namespace); err != nil {
		return err
	}
	if s.data.wanted() {
		return s.data.write(c, d)
	}
	p := c.page()
	s.overview(p, &d.StreamStanding)
	objects(p, &d.StreamStanding)
	p.heading("Processing Elements")
	if len(d.PEs) == 0 {
		p.linef("No processing elements")
	} else {
		p.table(peRows(d.PEs, *s.verbose))
	}
	return c.show(p)
}

// list lists all stream jobs.
func (s streamStatus) list(ctx context.Context, c *call) error {
	// Standings are read job by job, as no operation lists them.
	jobs, _, err := client.Call(ctx, c.client, op.ListJobs, op.JobsQuery{Query: op.Query{Filter: `Type == "` + berth.TypeStream + `"`}})
	if err != nil {
		return err
	}
	list := []op.StreamStanding{}
	for _, j := range jobs {
		v, _, err := client.Call(ctx, c.client, op.ReadStreamJob, op.StreamJobRef{JobID: string(j.ID), Query: op.Query{Namespace: j.Namespace}})
		switch {
		case berth.KindOf(err) == berth.NotFound: // deleted meanwhile
		case err != nil:
			return err
		default:
			list = append(list, v)
		}
	}
	if s.data.wanted() {
		return s.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No stream jobs")
		return c.show(p)
	}
	rows := [][]string{{"ID", "Namespace", "Phase", "State", "Generation", "Ready"}}
	for i := range list {
		v := &list[i]
		rows = append(rows, []string{string(v.JobID), v.Namespace, v.Phase, standsAt(v), strconv.FormatUint(v.Generation, 10), strconv.FormatBool(v.Ready)})
	}
	p.table(rows)
	return c.show(p)
}

// findStreamJob returns the stream job whose ID is or begins with text.
func (c *call) findStreamJob(ctx context.Context, text string) (op.Job, error) {
	j, _, err := c.findJob(ctx, text)
	if err == nil && j.Type != berth.TypeStream {
		err = berth.Errorf(berth.Invalid, "job %q has type %s: this command requires type %s", j.ID, j.Type, berth.TypeStream)
	}
	return j, err
}

// standsAt is the state of a submission, unless the job is being deleted.
func standsAt(v *op.StreamStanding) string {
	if v.Deletion != nil {
		return "deleting"
	}
	return v.State
}

// overview adds the rows about the job and its submission. A job has no stream
// ID until its submission has begun.
func (s streamStatus) overview(p *page, v *op.StreamStanding) {
	kv := []string{"ID", string(v.JobID), "Namespace", v.Namespace, "UID", v.UID, "Stream ID", none}
	if v.StreamID > 0 {
		kv[len(kv)-1] = strconv.FormatUint(v.StreamID, 10)
	}
	p.pairs(append(kv, standingPairs(v)...)...)
}

// standingPairs are the rows about the progress of a submission.
func standingPairs(v *op.StreamStanding) []string {
	kv := []string{
		"Phase", v.Phase, "State", standsAt(v), "Generation", fmt.Sprintf("%d, of version %d", v.Generation, v.Version),
		"Ready", strconv.FormatBool(v.Ready),
	}
	// One submission runs at a time; a newer version waits for its end.
	if v.Newest > v.Version && v.StreamID > 0 {
		kv = append(kv, "Next", fmt.Sprintf("version %d, after this one is submitted", v.Newest))
	}
	if v.Deadline > 0 {
		kv = append(kv, "Deadline", at(v.Deadline))
	}
	if v.Recovery != nil && v.Recovery.Count > 0 {
		kv = append(kv, "Recoveries", fmt.Sprintf("%d, the last one caused by %s; its predecessor was %s",
			v.Recovery.Count, v.Recovery.LastCause, v.Recovery.Predecessors[len(v.Recovery.Predecessors)-1]))
	}
	if v.LastError != "" {
		kv = append(kv, "Last Error", v.LastError)
	}
	if v.Deletion != nil {
		kv = append(kv, "Deletion", deletionLine(v.Deletion, "object"))
	}
	return kv
}

// deletionLine describes a deletion and what it is waiting for.
func deletionLine(d *op.Deletion, noun string) string {
	return fmt.Sprintf("%s, by %s; waiting for %s to end", d.Policy, d.Intent, plural(d.Blocking, noun))
}

// objects shows what is planned, what exists, and what is missing.
func objects(p *page, v *op.StreamStanding) {
	rows := [][]string{{"Kind", "Planned", "There"}}
	for _, kind := range slices.Concat(berth.StreamKinds, []string{berth.KindAlloc}) {
		if v.Expected[kind] > 0 || v.Observed[kind] > 0 {
			rows = append(rows, []string{kind, strconv.Itoa(v.Expected[kind]), strconv.Itoa(v.Observed[kind])})
		}
	}
	if len(rows) > 1 {
		p.heading("Objects")
		p.table(rows)
	}
	lacking(p, "Missing", v.Missing)
	lacking(p, "Of Another Generation", v.Stale)
}

// mostLacking is how many missing objects are listed.
const mostLacking = 10

// lacking adds a section with the first mostLacking of the list, and how many
// there are besides. It adds nothing for an empty list.
func lacking(p *page, heading string, list []string) {
	if len(list) == 0 {
		return
	}
	p.heading(heading)
	for _, l := range list[:min(len(list), mostLacking)] {
		p.linef("%s", l)
	}
	if n := len(list) - mostLacking; n > 0 {
		p.linef("and %d more", n)
	}
}
