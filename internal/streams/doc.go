// Package streams says what stream jobs come to: what a job is made of
// ([Expand]), which exports feed which imports ([Routes]), and what a
// processing element is told of its connections ([Describe]).
//
// All of it follows from what is handed in: there is no clock, no chance and no
// state, so that servers, tests and tools find the same.
package streams
