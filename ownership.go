package berth

import "strings"

// Propagation says what becomes of what an object owns when it is deleted.
type Propagation string

// The ways to delete an object.
const (
	// Background removes the object at once; what it owns goes afterwards.
	Background Propagation = "background"
	// Foreground marks the object, and removes it when all that it owns and
	// that holds it has gone. The mark refuses everything new.
	Foreground Propagation = "foreground"
	// Orphan removes the object at once and leaves what it owns to itself.
	Orphan Propagation = "orphan"
)

// Propagations are all there are.
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
	return "", Errorf(Invalid, "%s: %q is none; allowed are %s", name, Clip(s, 64), strings.Join(all, ", "))
}

// Intents say why an object is deleted. An intent is recorded with the mark, so
// that nobody has to guess it.
const (
	IntentUser    = "user"
	IntentRecover = "recover" // a stream job whose submission was interrupted begins anew
	IntentReplace = "replace" // a user registered a stream job that was stopped or given up
)

// Deletion is the mark of an object that is being deleted in the foreground.
type Deletion struct {
	Policy       Propagation
	Intent       string
	Cause        Cause
	RequestIndex uint64 // at which it was marked
	Time         int64  // ns since 1970
}

// The kinds of object that own others, or are owned.
const (
	KindJob   = "Job"
	KindAlloc = "Allocation"
)

// OwnerRef names an owner. The UID says which: a name can be given again.
type OwnerRef struct {
	Kind       string
	Name       string
	UID        string // with the letter of its kind
	Controller bool   // it decides about the object
	Block      bool   // it is not gone, deleted in the foreground, before the object is
}

// Owners returns the owners of an allocation: its job, unless it was left to
// itself, or the processing element of a stream job that it is a launch of. One
// that has ended holds nobody. They follow from the allocation, so nothing is
// stored of them.
func (a *Alloc) Owners() []OwnerRef {
	switch pe := a.Rest().PE; {
	case pe != nil:
		return []OwnerRef{{Kind: KindPE, Name: a.Name(), UID: pe.UID.Text('p'), Controller: true, Block: !a.Ended()}}
	case a.Orphaned:
		return []OwnerRef{}
	}
	return []OwnerRef{{Kind: KindJob, Name: string(a.Job.ID), UID: a.Job.UID.Text('j'), Controller: true, Block: !a.Ended()}}
}
