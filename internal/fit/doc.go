// Package fit is the arithmetic of capacity: what a node has, what its
// allocations hold, what a task group asks for, and whether one fits the other.
// It counts processor time, memory and disk, and gives out ports, cores, NUMA
// nodes and devices by name.
//
// The scheduler, the planner and the state all count here and nowhere else, so
// they cannot disagree. The package is pure: it keeps nothing, knows no tables
// and no time. Changes to a [Usage] go through a [Writer], for those who keep
// usages in tables, or a [Draft], for those who try things out.
package fit
