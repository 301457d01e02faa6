package validate

import (
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// Bounds of a node pool.
const (
	maxPoolDescription = 256 // bytes
	maxPoolName        = 128 // bytes
)

// poolName is the form of a node pool's name; 128 is maxPoolName.
var poolName = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// NodesPool returns the problems of the pool that a node registers with;
// path is the name of its field.
func NodesPool(path, name string) error {
	var ps berth.Problems
	checkPoolName(&ps, path, name)
	if name == berth.AllNodePool {
		ps.Addf(path, "%q has the nodes of every pool; a node registers with one of its own", name)
	}
	return ps.Err()
}

// checkPoolName notes a problem if the name cannot be that of a node pool.
func checkPoolName(ps *berth.Problems, path, name string) {
	if !poolName.MatchString(name) {
		ps.Addf(path, "%.150q is not a valid name of a node pool: want 1 to %d letters, digits, - and _", name, maxPoolName)
	}
}

// NodePool fills in defaults and returns every problem of the pool.
func NodePool(p *berth.NodePool) error {
	if p.NodeIdentityTTL == 0 {
		p.NodeIdentityTTL = berth.DefaultNodeIdentityTTL
	}
	var ps berth.Problems
	checkPoolName(&ps, "Name", p.Name)
	if berth.BuiltIn(p.Name) {
		ps.Addf("Name", "%q is built in and cannot be changed", p.Name)
	}
	if len(p.Description) > maxPoolDescription || !utf8.ValidString(p.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", maxPoolDescription)
	}
	Meta(&ps, "Meta", p.Meta)
	if p.NodeIdentityTTL < 0 {
		ps.Addf("NodeIdentityTTL", "must be at least 0s, got %v", p.NodeIdentityTTL)
	}
	if s := p.SchedulerConfiguration; s != nil && s.SchedulerAlgorithm != "" {
		checkAlgorithm(&ps, "SchedulerConfiguration.SchedulerAlgorithm", s.SchedulerAlgorithm)
	}
	return ps.Err()
}
