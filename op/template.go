package op

import (
	"berth"
	"berth/internal/acl"
)

// The kinds of values that templates and secrets of tasks can want.
const (
	WantVariable  = "variable"  // a variable with its items
	WantVariables = "variables" // the variables whose paths begin with a prefix, without items
	WantService   = "service"   // the instances of a service
	WantServices  = "services"  // the services of a namespace
)

// Want is a value that a task wants to know.
type Want struct {
	Kind      string
	Name      string // path, prefix or name of the service
	Namespace string // "" is the task's
	Tag       string // of a service: only instances with it
	Choose    string // of a service: see ServiceQuery
}

// Wanted is what there is of a Want.
type Wanted struct {
	Missing   bool // there is no such variable
	Denied    bool // the task may not know it
	Variables []Variable
	Instances []berth.ServiceRegistration
	Services  []ServiceStub
}

// WantsQuery asks for the values that a task wants, by the rights of its
// identity. It waits until they differ from what the agent has.
type WantsQuery struct {
	NodeID   berth.NodeID
	AllocID  berth.AllocID
	TaskName string
	Wants    []Want // at most MaxWants
	Have     string // Mark of the newest answer; "" if there was none
	Query           // MinQueryIndex is the Index of that answer
}

// MaxWants is how many values a task can want.
const MaxWants = 256

// WantsAnswer answers WantsQuery in the order of its wants.
type WantsAnswer struct {
	Values []Wanted
	Mark   string // identifies the answer in the next query
	Meta
}

// Wants is called by agents for templates and secrets of tasks.
var Wants = define[WantsQuery, WantsAnswer]("template.values", "", "Template.Values", acl.Node, acl.NoSpace)
