package berth

import "strings"

// Propagation decides what happens to the objects that a deleted object owns.
type Propagation string

// The ways to delete an object.
const (
	// Background removes the object at once, and what it owns afterwards.
	Background Propagation = "background"
	// Foreground marks the object, and removes it when everything that it owns
	// and that holds it is gone. A marked object accepts nothing new.
	Foreground Propagation = "foreground"
	// Orphan removes the object at once and leaves what it owns alone.
	Orphan Propagation = "orphan"
)

// Propagations are all propagations.
var Propagations = []Propagation{Background, Foreground, Orphan}

// ParsePropagation reads a propagation; "" is background.
func ParsePropagation(name, s string) (Propagation, error) {
	if s == "" {
		return Background, nil
	}
	var all []string
	for _, p := range Propagations {
		if s == string(p) {
			return p, nil
		}
		all = append(all, string(p))
	}
	return "", Errorf(Invalid, "unknown %s %q: want %s or %s", name, Clip(s, 64), strings.Join(all[:len(all)-1], ", "), all[len(all)-1])
}

// Intents are the reasons for a deletion. They are recorded with the mark.
const (
	IntentUser    = "user"
	IntentRecover = "recover" // a stream job whose submission was interrupted starts again
	IntentReplace = "replace" // a user registered a stream job that was stopped or given up
)

// Deletion is the mark of an object that is being deleted in the foreground.
type Deletion struct {
	Policy       Propagation
	Intent       string
	Cause        Cause
	RequestIndex uint64 // of the command that marked it
	Time         int64  // ns since 1970
	Force        bool   `json:",omitempty" msgpack:",omitempty"` // it waits for no allocation, and neither do its children
}

// The kinds of objects that own others or are owned.
const (
	KindJob   = "Job"
	KindAlloc = "Allocation"
)

// OwnerRef names an owner. Its UID tells incarnations apart: names can be reused.
type OwnerRef struct {
	Kind       string
	Name       string
	UID        string // with the letter of its kind
	Controller bool   // it manages the object
	Block      bool   // its foreground deletion waits for the object
}

// Owners returns the owners of an allocation: its job, or the processing element
// of a stream job that it is a launch of; none for an orphan. An allocation that
// has ended holds no owner. Owners follow from the allocation and are not stored.
func (a *Alloc) Owners() []OwnerRef {
	switch pe := a.Rest().PE; {
	case pe != nil:
		return []OwnerRef{{Kind: KindPE, Name: a.Name(), UID: pe.UID.Text('p'), Controller: true, Block: !a.Ended()}}
	case a.Orphaned:
		return []OwnerRef{}
	}
	return []OwnerRef{{Kind: KindJob, Name: string(a.Job.ID), UID: a.Job.UID.Text('j'), Controller: true, Block: !a.Ended()}}
}
