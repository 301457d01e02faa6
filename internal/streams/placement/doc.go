// Package placement finds the processing elements of a stream job that wait for
// a node, and the nodes they may use. It is a function of a snapshot; the
// scheduler scores the nodes and makes the plan.
package placement
