// Package hostile attacks the real binary as a stranger with access to its ports
// would: with too many connections, with bodies that are costly to take in, with
// jobs that are costly to schedule, with noise. Meanwhile ordinary users go on
// working. Nothing may die, memory stays bounded and is given back, users are
// answered, and every refusal says what is wrong.
//
// The short form is part of make test. make hostile takes an hour; it also holds
// users' waits to a bound, and servers to the times that they have by default for
// an election and for the headers of a request: only a quiet machine can keep
// these.
package hostile
