package state

import (
	"reflect"

	"berth"
	"berth/internal/admit"
)

// What an export publishes and what an import subscribes to can be changed
// while they exist. Only the resource changes: the job, its plan and its
// generation stay as they are. The change lasts until the resource is removed
// or the job specifies it differently, which the hash in its plan shows.

// SetExport changes the properties of an export by properties.
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
		ps.Addf("Properties", "%s is exported by name, as %q, so it cannot have properties", r.Name, was.Spec.StreamID)
	case len(c.Properties) == 0:
		ps.Addf("Properties", "must not be empty: %s is exported by its properties", r.Name)
	}
	if err := ps.Err(); err != nil {
		return err
	}
	// No change, no new index: nobody connects again.
	if reflect.DeepEqual(was.Spec.Properties, c.Properties) {
		return nil
	}
	n, o := *r, *was
	o.Spec.Properties = c.Properties
	n.Object.Export = &o
	tx.putResource(r, &n)
	return nil
}

// SetImport changes the filter or subscription of an import.
type SetImport struct {
	UID          berth.UID
	Filter       *string // nil leaves it unchanged
	Subscription *string // nil leaves it unchanged
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
			ps.Addf("Subscription", "must not be empty: %s imports by subscription only", r.Name)
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

// changeable returns a resource of a kind that is not orphaned or about to go.
func (tx *Tx) changeable(uid berth.UID, kind string) (*berth.Object, error) {
	letter := berth.KindLetter(kind)
	r := tx.Resource(uid)
	switch {
	case r == nil:
		return nil, berth.Errorf(berth.NotFound, "%s %s not found", kind, uid.Text(letter))
	case r.Kind != kind:
		return nil, berth.Errorf(berth.Invalid, "UID: %s has kind %s, want %s", uid.Text(berth.KindLetter(r.Kind)), r.Kind, kind)
	case r.Owner.IsZero():
		return nil, berth.Refusef(berth.CodeOwnerMissing, "%s %q, %s, was left to itself: nothing is routed by it", kind, r.Name, uid.Text(letter))
	}
	_, _, err := tx.alive(r.Job, r.Owner)
	return r, err
}
