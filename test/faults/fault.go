package main

import (
	"context"
	"time"
)

// Fault is something that is done to a cluster and undone. To add one, write a
// value of this type into the file of its kind and add its name to faults.
type Fault struct {
	ID   string // of the list of faults
	Name string
	Kind string // process, network, disk, messages or client
	// Says is what must hold in addition to what must always hold.
	Says  string
	Setup Setup
	// Start begins the fault. It may last as long as the fault is to last.
	Start func(ctx context.Context, r *round) error
	// Hold is how long the fault is left alone.
	Hold time.Duration
	// Stop ends it: every process runs and every network is whole. It is called
	// even if Start failed.
	Stop func(ctx context.Context, r *round) error
	// After checks what only this fault requires, once all is healthy. It
	// may be nil.
	After func(ctx context.Context, r *round) error
	// Limits bound the figures of all rounds together.
	Limits []Limit
	// Falls reports whether nodes may be taken for down.
	Falls bool
}

// Limit bounds a figure, in seconds.
type Limit struct {
	Figure   string
	P50, P99 float64 // 0: none
}

// faults lists all faults in the order in which they are played.
var faults = []*Fault{
	killLeader, killAllServers, pauseLeader, leaderApart, minority, deafServer, flap, fullDisk, slowDisk,
	harmedLog, lostData, installSnapshot, oldData, killAgent, agentAway, allRegister, rollingRestart, twiceAndLate,
}
