package server_test

import (
	"slices"
	"testing"

	"berth/op"
)

// The server serves every operation, over HTTP, the wire, or both, and nothing
// that is not an operation. Whoever adds one to op's list hears of it here.
func TestEveryOperationIsServed(t *testing.T) {
	served := start(t, t.TempDir()).server.Served()
	for _, i := range op.All() {
		if !slices.Contains(served, i.Name) {
			t.Errorf("%s has no handler", i.Name)
		}
	}
	for _, name := range served {
		if !slices.ContainsFunc(op.All(), func(i *op.Info) bool { return i.Name == name }) {
			t.Errorf("%s has a handler and is no operation", name)
		}
	}
}
