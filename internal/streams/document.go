package streams

import (
	"cmp"
	"slices"
	"strings"

	"berth"
)

// Document tells the tasks of a processing element about its connections.
type Document struct {
	Version uint64 // increases whenever anything else in it changes
	Job     DocumentJob
	PE      DocumentPE
	Inputs  []DocumentInput
	Outputs []DocumentOutput
}

// DocumentJob is the job of a processing element.
type DocumentJob struct {
	Name       string
	ID         uint64 // its StreamID
	UID        string
	Generation uint64 // grows with each submission
}

// DocumentPE is the processing element itself.
type DocumentPE struct {
	ID          int
	Name        string
	UID         string
	LaunchCount uint64 // grows with each launch
	ContentID   string // it was launched with
	Region      string // of parallel channels; empty if it is in none
	Channel     int    // from 0
	MaxChannels int    // width of Region
}

// DocumentInput is an input: where it listens and what feeds it.
type DocumentInput struct {
	Name string
	Bind string // host:port to listen on
	From []DocumentSource
}

// The kinds of connection.
const (
	Static  = "static"  // a stream of the job
	Dynamic = "dynamic" // a route between an export and an import
)

// DocumentSource is an output that feeds an input.
type DocumentSource struct {
	Job    string
	PE     string
	Output string
	Kind   string // Static or Dynamic
	Export string `json:",omitempty"` // of a dynamic one
}

// DocumentOutput is an output and what it feeds.
type DocumentOutput struct {
	Name         string
	Distribution string // how tuples are shared out among the targets
	To           []DocumentTarget
}

// DocumentTarget is an input that an output feeds.
type DocumentTarget struct {
	Kind        string // Static or Dynamic
	Job         string
	PE          string
	Input       string
	Addr        string // empty while the target is not running
	LaunchCount uint64 // of the target
	Filter      string `json:",omitempty"` // of a dynamic one: which tuples are sent
	Import      string `json:",omitempty"` // of a dynamic one
	Congestion  string `json:",omitempty"` // of a dynamic one, unless the exporter waits
}

// Subject holds what the document of a processing element is made from.
type Subject struct {
	Version uint64
	Job     *berth.StreamJob
	PE      *berth.Object   // of kind ProcessingElement, not an orphan
	Config  *berth.PEConfig // of that name and owner
	// Routes contains the routes that begin or end at the processing element.
	// Others are ignored, and duplicates count once.
	Routes []Route
	// Bind returns the address on which the port with that label is listened
	// to, "" if unknown.
	Bind func(label string) string
	// Target returns the address of an input, "" if it has none yet, and how
	// often its processing element was launched.
	Target func(owner berth.UID, pe, input string) (addr string, launch uint64)
}

// Describe returns the document of a processing element. It depends on the
// subject alone: first the static connections of the config, then the routes in
// order of job, processing element and port.
func Describe(s *Subject) *Document {
	p := s.PE
	spec := p.Object.PE
	d := &Document{
		Version: s.Version,
		Job:     DocumentJob{string(s.Job.Key.ID), s.Job.StreamID, s.Job.UID.Text(berth.KindLetter(berth.KindJob)), s.Job.Generation},
		PE: DocumentPE{
			spec.ID, p.Name, p.UID.Text(berth.KindLetter(berth.KindPE)), p.PE.Launch, cmp.Or(p.PE.ContentID, s.Config.ContentID),
			spec.Region, spec.Channel, spec.MaxChannels,
		},
		Inputs: []DocumentInput{}, Outputs: []DocumentOutput{},
	}
	for i := range s.Config.Inputs {
		d.Inputs = append(d.Inputs, s.input(&s.Config.Inputs[i]))
	}
	for i := range s.Config.Outputs {
		d.Outputs = append(d.Outputs, s.output(&s.Config.Outputs[i]))
	}
	return d
}

// input describes an input: static sources in the job's order, then those of
// routes, sorted so that equal connections give equal documents.
func (s *Subject) input(in *berth.PEInput) DocumentInput {
	out := DocumentInput{Name: in.Name, Bind: s.Bind(in.Port), From: []DocumentSource{}}
	for _, p := range in.From {
		out.From = append(out.From, DocumentSource{Job: string(s.Job.Key.ID), PE: p.PE, Output: p.Port, Kind: Static})
	}
	static := len(out.From)
	for i := range s.Routes {
		x, m := s.Routes[i].Export, s.Routes[i].Import
		if to := m.Object.Import; m.Owner == s.PE.Owner && to.PE == s.PE.Name && to.Input == in.Name {
			from := x.Object.Export
			out.From = append(out.From, DocumentSource{string(x.Job.ID), from.PE, from.Output, Dynamic, from.Spec.Name})
		}
	}
	// Static ones keep the order of the job.
	slices.SortStableFunc(out.From[static:], func(a, b DocumentSource) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.PE, b.PE), strings.Compare(a.Output, b.Output), strings.Compare(a.Export, b.Export))
	})
	// Two routes may lead from the same output.
	out.From = slices.Compact(out.From)
	return out
}

// output describes an output, its targets ordered as an input's sources.
func (s *Subject) output(o *berth.PEOutput) DocumentOutput {
	out := DocumentOutput{Name: o.Name, Distribution: o.Distribution, To: []DocumentTarget{}}
	for _, p := range o.To {
		addr, launch := s.Target(s.PE.Owner, p.PE, p.Port)
		out.To = append(out.To, DocumentTarget{Kind: Static, Job: string(s.Job.Key.ID), PE: p.PE, Input: p.Port, Addr: addr, LaunchCount: launch})
	}
	static := len(out.To)
	for i := range s.Routes {
		r := &s.Routes[i]
		if from := r.Export.Object.Export; r.Export.Owner == s.PE.Owner && from.PE == s.PE.Name && from.Output == o.Name {
			out.To = append(out.To, s.dynamic(r))
		}
	}
	slices.SortStableFunc(out.To[static:], func(a, b DocumentTarget) int {
		return cmp.Or(strings.Compare(a.Job, b.Job), strings.Compare(a.PE, b.PE), strings.Compare(a.Input, b.Input), strings.Compare(a.Import, b.Import))
	})
	// Two routes may lead to the same input.
	out.To = slices.Compact(out.To)
	return out
}

// dynamic returns the target of a route.
func (s *Subject) dynamic(r *Route) DocumentTarget {
	to := r.Import.Object.Import
	t := DocumentTarget{Kind: Dynamic, Job: string(r.Import.Job.ID), PE: to.PE, Input: to.Input, Filter: r.Filter(), Import: to.Spec.Name}
	t.Addr, t.LaunchCount = s.Target(r.Import.Owner, to.PE, to.Input)
	if c := r.Congestion(); c != berth.CongestionWait {
		t.Congestion = c
	}
	return t
}
