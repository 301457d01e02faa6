package place

import (
	"errors"
	"fmt"

	"berth"
)

// Budget bounds the work of a decision. It counts steps, not time, so that the
// bound does not depend on how busy the machine is: one step is about the work
// of dropping a node, a tenth of a microsecond. A nil Budget bounds nothing.
type Budget struct {
	Most int64 // steps allowed
	// Interrupt is asked every few thousand steps. An error ends the decision
	// with that error. It may be nil.
	Interrupt func() error

	spent, asked int64
}

// ErrTooMuchWork is the kind of error with which a [Budget] ends what needs too
// many steps.
var ErrTooMuchWork = errors.New("too much work")

// interruptEvery is how many steps pass between two calls of Interrupt: less
// than a millisecond.
const interruptEvery = 4096

// cut ends what a budget runs. It is a panic value, so that no loop of a
// decision must carry an error that only concerns its caller.
type cut struct{ err error }

// Run runs f, which spends the budget, and returns why it was ended early, nil
// if it was not.
func (b *Budget) Run(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case cut:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Spent returns the steps spent.
func (b *Budget) Spent() int64 {
	if b == nil {
		return 0
	}
	return b.spent
}

// Spend counts steps. It ends what Run runs if these are too many.
func (b *Budget) Spend(steps int) {
	if b == nil {
		return
	}
	if b.spent += int64(steps); b.spent > b.Most {
		panic(cut{fmt.Errorf("%w: more than %d steps", ErrTooMuchWork, b.Most)})
	}
	b.ask()
}

// spendOn is Spend for a condition of a group, which the error names.
func (b *Budget) spendOn(steps int, group string, c *berth.Constraint) {
	if b == nil {
		return
	}
	if b.spent += int64(steps); b.spent > b.Most {
		panic(cut{fmt.Errorf("%w: more than %d steps, the last for the condition %q of group %q", ErrTooMuchWork, b.Most, berth.Clip(c.String(), clippedCondition), berth.Clip(group, clippedCondition))})
	}
	b.ask()
}

// clippedCondition is how much of a condition or name an error shows, in bytes.
const clippedCondition = 120

// ask calls Interrupt when it is time.
func (b *Budget) ask() {
	if b.Interrupt == nil || b.spent-b.asked < interruptEvery {
		return
	}
	b.asked = b.spent
	if err := b.Interrupt(); err != nil {
		panic(cut{err})
	}
}
