package state

import (
	"maps"
	"reflect"
	"slices"

	"berth"
)

// LastNumber is the greatest number of a command.
var LastNumber = Number(slices.Max(slices.Collect(maps.Keys(commands))))

// NewCommand returns an empty command of a number, nil if there is none.
func NewCommand(n Number) Command {
	if f := commands[uint64(n)]; f != nil {
		return f()
	}
	return nil
}

// LastOfDialect is the greatest number of a dialect.
func LastOfDialect(d int) Number { return lastNumbers[d] }

// RowTypes are the types of what saved snapshots hold.
var RowTypes = []reflect.Type{
	reflect.TypeFor[berth.Namespace](), reflect.TypeFor[berth.NodePool](), reflect.TypeFor[berth.Node](), reflect.TypeFor[berth.Job](),
	reflect.TypeFor[Summary](), reflect.TypeFor[ScalingEvents](), reflect.TypeFor[Submission](), reflect.TypeFor[berth.Eval](),
	reflect.TypeFor[berth.Alloc](), reflect.TypeFor[berth.Deployment](), reflect.TypeFor[Reschedules](), reflect.TypeFor[Explanation](),
	reflect.TypeFor[berth.ServiceRegistration](), reflect.TypeFor[berth.SchedulerConfig](), reflect.TypeFor[berth.AutopilotConfig](),
	reflect.TypeFor[versionLimit](), reflect.TypeFor[JobDeletion](), reflect.TypeFor[berth.StreamJob](), reflect.TypeFor[berth.Resource](),
}
