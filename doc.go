// Package berth is the language of the system: the nouns that users write,
// servers agree on and agents run. It holds values and what follows from a
// value alone; it imports nothing else of ours, and everything else of ours
// may import it.
//
// Field names are wire names: the same structs travel as JSON over HTTP, as
// msgpack between agents and servers, and rest in the replicated state. They
// follow the public HTTP API of Nomad (its Go client's types are the
// contract), so that existing clients read and write them unchanged.
//
// Jobs enter through package internal/admit, which fills defaults from the
// parents down and leaves every value complete: inside the system no field
// means "unset, look elsewhere", and a nil pointer means only that a block is
// absent. Stored values never change: to change one, copy the struct and store
// the copy.
package berth
