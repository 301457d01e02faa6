// Package streams computes what stream jobs consist of ([Expand]), which
// exports feed which imports ([Routes]), and what a processing element is told
// about its connections ([Describe]).
//
// All of it depends on the arguments alone, without clock, randomness or state,
// so that servers, tests and tools agree.
package streams
