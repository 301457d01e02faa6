package state

import (
	"fmt"
	"reflect"

	"berth"
	"berth/internal/state/codec"
)

// kind is what there is to know of a kind of command, beside what it does.
type kind struct {
	make func() Command
	// since is the log version that its number came with. A command that says
	// more than that has a method needs.
	since int
	// feature says in an operator's words what it is, if it can need a log version
	// beyond 1. DeleteJob says it itself.
	feature string
	cause   string // why it changed a resource, as events tell it
	counted bool   // its refusals are counted: nobody waits for it, so it came too late
}

const streamJobs = "jobs of type " + berth.TypeStream

// kinds are all there are, by number. Numbers are never used for anything else
// again.
var kinds = []kind{
	1:  {make: func() Command { return &BeginTerm{} }, since: 1, feature: "the ID of a cluster"},
	2:  {make: func() Command { return &RegisterJob{} }, since: 1, feature: streamJobs, cause: "register"},
	3:  {make: func() Command { return &StopJob{} }, since: 1, cause: "stop"},
	4:  {make: func() Command { return &RegisterNode{} }, since: 1},
	5:  {make: func() Command { return &SetNodeStatus{} }, since: 1},
	6:  {make: func() Command { return &ApplyPlan{} }, since: 1, counted: true},
	7:  {make: func() Command { return &ReportAllocs{} }, since: 1},
	8:  {make: func() Command { return &CancelEvals{} }, since: 1},
	9:  {make: func() Command { return &FailEval{} }, since: 1},
	10: {make: func() Command { return &AddNodeEvents{} }, since: 1},
	11: {make: func() Command { return &CreateEvals{} }, since: 1, feature: "evaluations for what a job left that is gone"},
	12: {make: func() Command { return &DeleteRows{} }, since: 1, cause: "gc"},
	13: {make: func() Command { return &RaiseCore{} }, since: 1},
	14: {make: func() Command { return &SetSchedulerConfig{} }, since: 1},
	15: {make: func() Command { return &UpsertNodePools{} }, since: 1},
	16: {make: func() Command { return &DeleteNodePools{} }, since: 1},
	17: {make: func() Command { return &SetNodeEligibility{} }, since: 1},
	18: {make: func() Command { return &EvaluateJob{} }, since: 1},
	19: {make: func() Command { return &SetDeploymentStatus{} }, since: 1},
	20: {make: func() Command { return &PromoteDeployment{} }, since: 1},
	21: {make: func() Command { return &SetAllocHealth{} }, since: 1},
	22: {make: func() Command { return &FailDeployment{} }, since: 1},
	23: {make: func() Command { return &StepDeployments{} }, since: 1},
	24: {make: func() Command { return &SetTrackedVersions{} }, since: 1},
	25: {make: func() Command { return &UpdateDrain{} }, since: 1},
	26: {make: func() Command { return &MigrateAllocs{} }, since: 1},
	27: {make: func() Command { return &FinishDrain{} }, since: 1},
	28: {make: func() Command { return &LaunchPeriodic{} }, since: 1},
	30: {make: func() Command { return &DispatchJob{} }, since: 1},
	31: {make: func() Command { return &RevertJob{} }, since: 1, cause: "revert"},
	32: {make: func() Command { return &SetJobStability{} }, since: 1, cause: "stability"},
	33: {make: func() Command { return &TagVersion{} }, since: 1, cause: "tag"},
	34: {make: func() Command { return &ScaleJob{} }, since: 1, cause: "scale"},
	37: {make: func() Command { return &StopAlloc{} }, since: 1},
	40: {make: func() Command { return &UpsertServices{} }, since: 1},
	41: {make: func() Command { return &DeleteServices{} }, since: 1},
	42: {make: func() Command { return &CheckHash{} }, since: 1},
	43: {make: func() Command { return &SetAutopilotConfig{} }, since: 1},
	44: {make: func() Command { return &DeleteJob{} }, since: 2, cause: "delete"},
	45: {make: func() Command { return &FinalizeDeletions{} }, since: 2, feature: "deletion of jobs with propagation foreground", cause: "finalize", counted: true},
	46: {make: func() Command { return &PlanSubmission{} }, since: 2, feature: streamJobs, cause: "plan", counted: true},
	47: {make: func() Command { return &EnsureResources{} }, since: 2, feature: streamJobs, cause: "submission", counted: true},
	48: {make: func() Command { return &LaunchPE{} }, since: 2, feature: streamJobs, cause: "launch", counted: true},
	49: {make: func() Command { return &CompleteSubmission{} }, since: 2, feature: streamJobs, cause: "complete", counted: true},
	50: {make: func() Command { return &DeleteResource{} }, since: 2, feature: streamJobs, cause: "user"},
	51: {make: func() Command { return &CollectResources{} }, since: 2, feature: streamJobs, cause: "gc", counted: true},
	52: {make: func() Command { return &SetConnectivity{} }, since: 2, feature: streamJobs, cause: "report", counted: true},
	53: {make: func() Command { return &RecoverJobs{} }, since: 2, feature: streamJobs, cause: "recover", counted: true},
	54: {make: func() Command { return &FailSubmission{} }, since: 2, feature: streamJobs, cause: "fail", counted: true},
	55: {make: func() Command { return &SetExport{} }, since: 2, feature: streamJobs, cause: "user"},
	56: {make: func() Command { return &SetImport{} }, since: 2, feature: streamJobs, cause: "user"},
}

// Number names a kind of command, as the log does.
type Number uint16

var numbers = func() map[reflect.Type]Number {
	m := map[reflect.Type]Number{}
	for n, k := range kinds {
		if k.make != nil {
			m[reflect.TypeOf(k.make())] = Number(n)
		}
	}
	return m
}()

// NumberOf returns the number of a command's kind; 0 is a kind that no log
// carries.
func NumberOf(c Command) Number { return numbers[reflect.TypeOf(c)] }

// Cause says why commands of the kind change resources, "" if they do not.
func (n Number) Cause() string { return kinds[n].cause }

// Counted reports whether refusals of the kind are counted.
func (n Number) Counted() bool { return kinds[n].counted }

// needer is a command that can say what the log version of its number has not.
type needer interface{ needs() int }

// Needs returns the log version that a server must know to read a command as it
// is meant.
func Needs(c Command) int { return needs(c, NumberOf(c)) }

func needs(c Command, n Number) int {
	if x, ok := c.(needer); ok {
		return x.needs()
	}
	if n == 0 { // no log carries it
		return 1
	}
	return kinds[n].since
}

// featured is a command that has more than one feature.
type featured interface{ feature() string }

// Feature says in an operator's words what a command is that log version 1 does
// not have.
func Feature(c Command) string {
	if x, ok := c.(featured); ok {
		return x.feature()
	}
	return kinds[NumberOf(c)].feature
}

// packed is a command that writes its own fields.
type packed interface {
	Command
	pack(w *codec.Writer)
	unpack(r *codec.Reader)
}

// AppendCommand appends an applied command as entries hold it. What a command
// learned when it was applied, such as the numbers of nodes, is part of it.
func AppendCommand(b []byte, c Command) []byte {
	n := NumberOf(c)
	if n == 0 {
		panic(fmt.Sprintf("state: %T has no number in the log", c))
	}
	p, ok := c.(packed)
	if !ok {
		return codec.AppendCommand(b, uint64(n), codec.Marshal(c))
	}
	var w codec.Writer
	p.pack(&w)
	return codec.AppendCommand(b, uint64(n), w.Buf())
}

// DecodeEntry returns the commands of a log entry. Bytes that no server wrote
// are an error, never a panic; so is a command or version of a newer server.
func DecodeEntry(b []byte) (out []Command, err error) {
	err = codec.DecodeEntry(b, func(number uint64, fields []byte) error {
		c, err := decodeCommand(number, fields)
		out = append(out, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func decodeCommand(number uint64, fields []byte) (Command, error) {
	if number >= uint64(len(kinds)) || kinds[number].make == nil {
		return nil, berth.Errorf(berth.Unavailable, "log entry: unknown command %d, written by a newer build", number)
	}
	c := kinds[number].make()
	p, ok := c.(packed)
	if !ok {
		if err := codec.Unmarshal(fields, c); err != nil {
			return nil, fmt.Errorf("log entry: %w", err)
		}
		return c, nil
	}
	r := codec.NewReader(fields)
	p.unpack(r)
	if err := r.End(); err != nil {
		return nil, fmt.Errorf("log entry: %T: %w", c, err)
	}
	return c, nil
}

// init prepares what is written as msgpack.
func init() {
	for t := range numbers {
		codec.Register(t)
	}
	codec.Register(
		reflect.TypeFor[berth.Namespace](), reflect.TypeFor[berth.Node](), reflect.TypeFor[berth.Job](), reflect.TypeFor[berth.Eval](),
		reflect.TypeFor[berth.AllocMore](), reflect.TypeFor[berth.Deployment](), reflect.TypeFor[Summary](), reflect.TypeFor[Submission](),
		reflect.TypeFor[Reschedules](), reflect.TypeFor[Explanation](), reflect.TypeFor[endRest](), reflect.TypeFor[updateRest](),
	)
}
