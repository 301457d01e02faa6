package submit

import (
	"berth"
	"berth/internal/state"
)

// The states of a submission, in order.
const (
	StatePlan           = "plan" // the plan is not made yet
	StateWaitConfigs    = "wait-configs"
	StateWaitEndpoints  = "wait-endpoints"
	StateWaitHostPools  = "wait-hostpools"
	StateWaitExports    = "wait-exports"
	StateWaitImports    = "wait-imports"
	StateWaitRegions    = "wait-regions"
	StateWaitPEs        = "wait-pes"
	StateWaitAllocs     = "wait-allocs" // processing elements wait for their allocations
	StateSweepPEs       = "sweep-pes"   // the first of what an older generation has left
	StateSweepImports   = "sweep-imports"
	StateSweepExports   = "sweep-exports"
	StateSweepEndpoints = "sweep-endpoints"
	StateSweepConfigs   = "sweep-configs"
	StateSweepRegions   = "sweep-regions"
	StateSweepHostPools = "sweep-hostpools"
	StateSubmitted      = "submitted" // everything is as planned
	StateFailed         = "failed"    // the submission was given up
	StateStopped        = "stopped"   // the job was stopped
)

// waitStates are the states in which objects of a kind are yet to be created or
// changed.
var waitStates = map[string]string{
	berth.KindConfig: StateWaitConfigs, berth.KindEndpoint: StateWaitEndpoints, berth.KindHostPool: StateWaitHostPools,
	berth.KindExport: StateWaitExports, berth.KindImport: StateWaitImports, berth.KindRegion: StateWaitRegions, berth.KindPE: StateWaitPEs,
}

// sweepStates are the states in which objects of an older generation are yet to
// be removed.
var sweepStates = map[string]string{
	berth.KindConfig: StateSweepConfigs, berth.KindEndpoint: StateSweepEndpoints, berth.KindHostPool: StateSweepHostPools,
	berth.KindExport: StateSweepExports, berth.KindImport: StateSweepImports, berth.KindRegion: StateSweepRegions, berth.KindPE: StateSweepPEs,
}

// Standing is how far a stream job has come. It is computed, never stored.
type Standing struct {
	State    string         // the first step that is not complete
	Expected map[string]int // by kind, including allocations: how many are planned
	Observed map[string]int // by kind: how many of them exist as planned
	Missing  []string       // planned and not existing, "kind name"
	Stale    []string       // existing, of an older generation
	Ready    bool           // all processing elements run and are fully connected
}

// Position returns how far a stream job has come.
func Position(snap *state.Snapshot, row *berth.StreamJob) Standing {
	s := Standing{Expected: map[string]int{}, Observed: map[string]int{}, Missing: []string{}, Stale: []string{}}
	if row.Plan == nil {
		s.State = StatePlan
		s.showEnd(row)
		return s
	}
	lacks := map[string]bool{}
	var left []string // of an older generation, and not planned
	stale := map[string]bool{}
	for _, kind := range berth.StreamKinds {
		if n := len(row.Plan.Of(kind)); n > 0 {
			s.Expected[kind] = n
		}
		for o, r := range beside(snap, row, kind) {
			switch {
			case o == nil:
				left = append(left, kind+" "+r.Name)
				lacks[sweepStates[kind]] = true
			case asPlanned(row, o, r):
				s.Observed[kind]++
				continue
			case r == nil:
				s.Missing = append(s.Missing, kind+" "+o.Name)
				lacks[waitStates[kind]] = true
				continue
			default:
				s.Stale = append(s.Stale, kind+" "+o.Name)
				lacks[waitStates[kind]] = true
			}
			if kind == berth.KindPE {
				stale[r.Name] = true
			}
		}
	}
	s.Stale = append(s.Stale, left...)
	s.allocs(snap, row, stale, lacks)
	// The state is the first thing lacking, in the order in which objects are
	// made.
	s.State = StateSubmitted
	for _, kind := range berth.StreamKinds {
		s.showIfFirst(lacks, waitStates[kind])
	}
	s.showIfFirst(lacks, StateWaitAllocs)
	for _, kind := range sweepOrder {
		s.showIfFirst(lacks, sweepStates[kind])
	}
	s.showEnd(row)
	return s
}

// showIfFirst shows a state if it is not complete and no earlier one is shown.
func (s *Standing) showIfFirst(lacks map[string]bool, at string) {
	if s.State == StateSubmitted && lacks[at] {
		s.State = at
	}
}

// showEnd shows that a submission has failed or was stopped.
func (s *Standing) showEnd(row *berth.StreamJob) {
	switch row.Phase {
	case berth.PhaseFailed:
		s.State = StateFailed
	case berth.PhaseStopped:
		s.State = StateStopped
	}
}

// allocs counts the allocations, and those that run with all connections. stale
// names the processing elements of an older generation, which do not count.
func (s *Standing) allocs(snap *state.Snapshot, row *berth.StreamJob, stale, lacks map[string]bool) {
	runs := map[berth.PERef]*berth.Alloc{}
	for a := range snap.AllocsOf(row.Key) {
		if ref := a.Rest().PE; ref != nil && a.Live() {
			runs[*ref] = a
		}
	}
	// Each processing element has one allocation.
	s.Expected[berth.KindAlloc] = s.Expected[berth.KindPE]
	ready := 0
	for pe := range snap.ResourcesOf(row.UID, berth.KindPE) {
		a := runs[berth.PERef{UID: pe.UID, Launch: pe.PE.Launch}]
		switch {
		case stale[pe.Name]:
		case a == nil:
			s.Missing = append(s.Missing, berth.KindAlloc+" "+pe.Name)
		case pe.PE.ContentID != pe.Object.PE.ContentID:
			s.Stale = append(s.Stale, berth.KindAlloc+" "+pe.Name)
		default:
			s.Observed[berth.KindAlloc]++
			if a.Client == berth.ClientRunning && pe.PE.Connectivity == berth.ConnectivityFull {
				ready++
			}
		}
	}
	lacks[StateWaitAllocs] = s.Observed[berth.KindAlloc] < s.Expected[berth.KindAlloc]
	s.Ready = ready == s.Expected[berth.KindPE] && ready > 0
}
