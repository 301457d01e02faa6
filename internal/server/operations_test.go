package server_test

import (
	"slices"
	"testing"

	"berth/op"
)

// The server serves every operation but those of agents, over HTTP, the wire, or
// both, and nothing that is not an operation. An operation that is declared in
// package op and not served shows here.
func TestEveryOperationIsServed(t *testing.T) {
	served := startSeveral(t, 1).list[0].server.Served()
	for _, i := range op.All() {
		if !i.Agents && !slices.Contains(served, i.Name) {
			t.Errorf("%s has no handler", i.Name)
		}
	}
	for _, name := range served {
		if !slices.ContainsFunc(op.All(), func(i *op.Info) bool { return i.Name == name }) {
			t.Errorf("%s has a handler and is no operation", name)
		}
	}
}
