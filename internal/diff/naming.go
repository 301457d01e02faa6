package diff

import (
	"reflect"
	"strings"

	"berth"
)

// objectName is what a block is called: as its field, a list in the singular.
func objectName(field string, list bool) string {
	if n := names[field]; n != "" {
		return n
	}
	if !list {
		return field
	}
	if s, ok := strings.CutSuffix(field, "ies"); ok {
		return s + "y"
	}
	return strings.TrimSuffix(field, "s")
}

// names are blocks that are not called as their field is.
var names = map[string]string{
	"ReservedPorts": "Static Port", "DynamicPorts": "Dynamic Port", "ScalingPolicies": "Scaling",
}

// inFile are fields whose blocks job files call otherwise, and that stand beside
// those of the job or group.
var inFile = map[reflect.Type]map[string]string{
	reflect.TypeFor[berth.StreamSpec]():  {"Regions": "ParallelRegions"},
	reflect.TypeFor[berth.StreamGroup](): {"Policy": "PE"},
}

// keys tell items apart that have neither a name nor a label.
var keys = map[reflect.Type]string{
	reflect.TypeFor[berth.Template]():     "DestPath",
	reflect.TypeFor[berth.VolumeMount]():  "Destination",
	reflect.TypeFor[berth.TaskArtifact](): "RelativeDest",
	reflect.TypeFor[berth.Spread]():       "Attribute",
	reflect.TypeFor[berth.SpreadTarget](): "Value",
}

// byPlace are items of which there is one, or the first is what counts.
var byPlace = map[reflect.Type]bool{reflect.TypeFor[berth.NetworkResource](): true}

// unseen are fields that are told elsewhere, or that only servers set.
var unseen = map[reflect.Type]map[string]bool{
	reflect.TypeFor[berth.Job](): {
		"ID": true, "TaskGroups": true, "Payload": true, "DispatchIdempotencyToken": true, "Stable": true, "Version": true, "VersionTag": true,
		"SubmitTime": true, "CreateIndex": true, "ModifyIndex": true, "JobModifyIndex": true, "UID": true,
	},
	reflect.TypeFor[berth.TaskGroup]():     {"Name": true, "Tasks": true},
	reflect.TypeFor[berth.Task]():          {"Name": true},
	reflect.TypeFor[berth.ScalingPolicy](): {"ID": true, "Namespace": true, "Target": true, "CreateIndex": true, "ModifyIndex": true},
}

// absent are fields of which zero means that they were not given.
var absent = map[reflect.Type]map[string]bool{
	reflect.TypeFor[berth.TaskGroup](): {
		"ShutdownDelay": true, "MaxRunDuration": true, "StopAfterClientDisconnect": true, "MaxClientDisconnect": true,
	},
	reflect.TypeFor[berth.Task](): {"ShutdownDelay": true},
	reflect.TypeFor[berth.Port](): {"Value": true},
}
