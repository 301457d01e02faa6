// Package placement says which processing elements of a stream job wait for a
// node, and which nodes they may use. It is a function of a snapshot; the
// scheduler scores the nodes and makes the plan.
package placement
