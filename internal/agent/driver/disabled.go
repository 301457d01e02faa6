package driver

import (
	"context"

	"berth"
)

// Disabled returns a driver that finds and ends tasks as d does, and starts
// none.
func Disabled(d Driver) Driver { return disabled{d} }

// disabled implements [Driver].
type disabled struct{ Driver }

// Fingerprint implements [Driver].
func (disabled) Fingerprint(context.Context) berth.DriverInfo {
	return berth.DriverInfo{HealthDescription: "disabled by driver.allowlist or driver.denylist"}
}

// Start implements [Driver].
func (d disabled) Start(context.Context, *Task) (Handle, error) {
	return nil, berth.Errorf(berth.Denied, "driver %s is disabled on this node by driver.allowlist or driver.denylist of client.options", d.Name())
}

// As returns d, or the driver that [Disabled] was given, as a T if it is one.
// What a disabled driver has started must still be cleared away.
func As[T any](d Driver) (t T, ok bool) {
	if off, is := d.(disabled); is {
		d = off.Driver
	}
	t, ok = d.(T)
	return t, ok
}
