package state

import (
	"reflect"

	"berth"
	"berth/internal/admit"
)

// What an export publishes and what an import wants can be changed while they
// are there. The change is one of the record alone: the job, its plan and its
// generation stay as they are. It lasts until the record goes, or until the job
// says something else of it, which the hash of its plan tells.

// SetExport gives an export by properties other properties.
type SetExport struct {
	UID        berth.UID
	Properties map[string]any
	Now        int64
}

// Apply implements Command.
func (c *SetExport) Apply(tx *Tx) error {
	r, err := tx.changeable(c.UID, berth.KindExport)
	if err != nil {
		return err
	}
	was := r.Object.Export
	ps := admit.CheckProperties("Properties", c.Properties)
	switch {
	case was.Spec.StreamID != "":
		ps.Addf("Properties", "%s is exported by name, as %q; an export has a name or properties", r.Name, was.Spec.StreamID)
	case len(c.Properties) == 0:
		ps.Addf("Properties", "are missing: %s is exported by its properties", r.Name)
	}
	if err := ps.Err(); err != nil {
		return err
	}
	if reflect.DeepEqual(was.Spec.Properties, c.Properties) {
		return nil
	}
	n, o := *r, *was
	o.Spec.Properties = c.Properties
	n.Object.Export = &o
	tx.putResource(r, &n)
	return nil
}

// SetImport gives an import another filter or subscription.
type SetImport struct {
	UID          berth.UID
	Filter       *string // nil leaves it
	Subscription *string // nil leaves it
	Now          int64
}

// Apply implements Command.
func (c *SetImport) Apply(tx *Tx) error {
	r, err := tx.changeable(c.UID, berth.KindImport)
	if err != nil {
		return err
	}
	o := *r.Object.Import
	var ps berth.Problems
	if c.Filter != nil {
		o.Spec.Filter = *c.Filter
		ps = append(ps, admit.CheckExpression("Filter", o.Spec.Filter)...)
	}
	if c.Subscription != nil {
		o.Spec.Subscription = *c.Subscription
		ps = append(ps, admit.CheckExpression("Subscription", o.Spec.Subscription)...)
		if o.Spec.Subscription == "" && o.Spec.StreamID == "" {
			ps.Addf("Subscription", "is missing: %s imports by nothing else", r.Name)
		}
	}
	if err := ps.Err(); err != nil {
		return err
	}
	if o == *r.Object.Import {
		return nil
	}
	n := *r
	n.Object.Import = &o
	tx.putResource(r, &n)
	return nil
}

// changeable returns a resource of a kind whose job is there and stays.
func (tx *Tx) changeable(uid berth.UID, kind string) (*berth.Object, error) {
	letter := berth.KindLetter(kind)
	r := tx.Resource(uid)
	switch {
	case r == nil:
		return nil, berth.Errorf(berth.NotFound, "%s %s not found", kind, uid.Text(letter))
	case r.Kind != kind:
		return nil, berth.Errorf(berth.Invalid, "UID: %s is of kind %s; allowed is %s", uid.Text(berth.KindLetter(r.Kind)), r.Kind, kind)
	case r.Owner.IsZero():
		return nil, berth.Refusef(berth.CodeOwnerMissing, "%s %q, %s, was left to itself: nothing is routed by it", kind, r.Name, uid.Text(letter))
	}
	_, _, err := tx.alive(r.Job, r.Owner)
	return r, err
}
