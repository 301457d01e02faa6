package state

import (
	"reflect"

	"berth"
)

// LastNumber is the greatest number of a command.
func LastNumber() Number { return Number(len(kinds) - 1) }

// NewCommand returns an empty command of a number, nil if there is none.
func NewCommand(n Number) Command {
	if f := kinds[n].make; f != nil {
		return f()
	}
	return nil
}

// RowTypes are the types of what saved snapshots hold.
var RowTypes = []reflect.Type{
	reflect.TypeFor[berth.Namespace](), reflect.TypeFor[berth.NodePool](), reflect.TypeFor[berth.Node](), reflect.TypeFor[berth.Job](),
	reflect.TypeFor[Summary](), reflect.TypeFor[ScalingEvents](), reflect.TypeFor[Submission](), reflect.TypeFor[berth.Eval](),
	reflect.TypeFor[berth.Alloc](), reflect.TypeFor[berth.Deployment](), reflect.TypeFor[Reschedules](), reflect.TypeFor[Explanation](),
	reflect.TypeFor[berth.ServiceRegistration](), reflect.TypeFor[berth.SchedulerConfig](), reflect.TypeFor[berth.AutopilotConfig](),
	reflect.TypeFor[versionLimit](), reflect.TypeFor[JobDeletion](), reflect.TypeFor[berth.StreamJob](), reflect.TypeFor[berth.Object](),
	reflect.TypeFor[berth.RootKey](), reflect.TypeFor[berth.SealedVariable](),
	reflect.TypeFor[berth.ACLToken](), reflect.TypeFor[berth.ACLPolicy](), reflect.TypeFor[berth.ACLRole](),
	reflect.TypeFor[berth.ACLAuthMethod](), reflect.TypeFor[berth.ACLBindingRule](), reflect.TypeFor[berth.OneTimeToken](),
	reflect.TypeFor[berth.Quota](),
	reflect.TypeFor[berth.HostVolume](), reflect.TypeFor[berth.HostVolumeClaim](),
	reflect.TypeFor[berth.CSIVolume](), reflect.TypeFor[CSIClaim](), reflect.TypeFor[CSIPlugin](),
}
