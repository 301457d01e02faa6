package op

import (
	"berth/internal/acl"
)

// VariableStub is a variable in a list: without its items.
type VariableStub struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // ns since 1970
	ModifyTime  int64 // ns since 1970
	Lock        *Lock `json:",omitempty"`
}

// Variable is a variable with its items.
type Variable struct {
	VariableStub
	Items map[string]string
}

// Lock is a lock on a variable.
type Lock struct {
	ID        string // shown to callers who may write the variable
	TTL       string // a duration such as "15s"
	LockDelay string // likewise
}

// VariableRef names a variable.
type VariableRef struct {
	VarPath string
	Query
}

// WriteVariable asks for a variable to be created or replaced, or for a change
// of its lock.
type WriteVariable struct {
	VarPath string // from the path
	Path    string // "", or the same
	Items   map[string]string
	Lock    *Lock   // with the ID of the lock that the caller holds; to take one, its TTL and delay
	CAS     *uint64 `query:"cas"`          // only if it was last changed at this index; 0: only if there is none
	Acquire bool    `query:"lock-acquire"` // take the lock
	Renew   bool    `query:"lock-renew"`   // keep the lock; nothing else changes
	Release bool    `query:"lock-release"` // give up the lock
	Write
}

// DeleteVariable asks for a variable to be deleted.
type DeleteVariable struct {
	VarPath string
	CAS     *uint64 `query:"cas"` // only if it was last changed at this index
	Write
}

// VariableWritten answers a write of a variable: what it is now. With the HTTP
// status 409 nothing was changed, and it is what the write met.
type VariableWritten struct {
	Variable
	Meta     `json:"-"`
	Conflict bool `json:",omitempty"` // nothing was changed
}

// Also reports whether the write met something else than its caller expected.
func (v *VariableWritten) Also() bool { return v.Conflict }

// The operations on variables.
var (
	ListVariables  = define[Query, []VariableStub]("variable.list", "GET /v1/vars", "Variables.List", acl.VariablesList, acl.QuerySpace)
	ReadVariable   = define[VariableRef, Variable]("variable.read", "GET /v1/var/{VarPath}", "Variables.Read", acl.VariablesRead, acl.QuerySpace)
	PutVariable    = define[WriteVariable, VariableWritten]("variable.write", "PUT /v1/var/{VarPath}", "", acl.VariablesWrite, acl.QuerySpace, also(409))
	RemoveVariable = define[DeleteVariable, VariableWritten]("variable.delete", "DELETE /v1/var/{VarPath}", "", acl.VariablesDestroy, acl.QuerySpace, also(409))
)
