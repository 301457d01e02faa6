package streams

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"berth"
	"berth/internal/strictjson"
)

// hashOf returns the hash of a value. Zero fields are left out, so a field that
// a later release adds changes no hash.
func hashOf(v any) (string, error) {
	text, err := strictjson.Canonical(v)
	if err != nil {
		return "", berth.Errorf(berth.Invalid, "%T cannot be hashed: %w", v, err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// content is what a processing element is launched with. Changing any of it
// takes a new launch.
type content struct {
	Definition  string // hash of definition: the same for all of a group
	Region      string
	Channel     int
	MaxChannels int
	Inputs      []berth.PEInput
	Outputs     []berth.PEOutput
}

// definition is what a group's tasks are and where they may run: the group
// itself, and what it inherits from the job.
type definition struct {
	Group       berth.TaskGroup
	Placement   berth.PEPlacement
	Pool        *berth.HostPoolSpec // of the placement
	Datacenters []string
	NodePool    string
	Constraints []berth.Constraint
	Affinities  []berth.Affinity
	Spreads     []berth.Spread
	Meta        map[string]string
}

// contents computes the content IDs of a group's processing elements.
func (x *expansion) contents(g *berth.TaskGroup) error {
	def, err := hashOf(x.definition(g))
	if err != nil {
		return err
	}
	for _, e := range x.groups[g.Name] {
		c := content{Definition: def, Region: e.spec.Region, Channel: e.spec.Channel, MaxChannels: e.spec.MaxChannels}
		c.Inputs, c.Outputs = e.config.Inputs, e.config.Outputs
		// Such a program learns new peers while it runs, so they are no reason
		// to replace it.
		if g.Stream != nil && g.Stream.LiveRewire {
			c.Inputs, c.Outputs = withoutPeers(e)
		}
		if e.spec.ContentID, err = hashOf(&c); err != nil {
			return err
		}
		e.config.ContentID = e.spec.ContentID
	}
	return nil
}

// withoutPeers returns the ports of a processing element without their peers.
func withoutPeers(e *element) (in []berth.PEInput, out []berth.PEOutput) {
	in, out = slices.Clone(e.config.Inputs), slices.Clone(e.config.Outputs)
	for i := range in {
		in[i].From = nil
	}
	for i := range out {
		out[i].To = nil
	}
	return in, out
}

// definition returns the definition of a group. It excludes the policies of the
// pe block, which tell servers what to do when the element ends and take effect
// at once. It also excludes the count: an element outside a region does not see
// it, and one inside sees its region's width.
func (x *expansion) definition(g *berth.TaskGroup) *definition {
	j := x.job
	d := &definition{Group: *g, Datacenters: sorted(j.Datacenters), NodePool: j.NodePool, Meta: j.Meta}
	d.Constraints, d.Affinities, d.Spreads = sortedByHash(j.Constraints), sortedByHash(j.Affinities), sortedByHash(j.Spreads)
	// A change of the count leaves the existing elements as they are.
	d.Group.Count, d.Group.Stream = 0, nil
	d.Group.Tasks = slices.SortedFunc(slices.Values(g.Tasks), func(a, b *berth.Task) int { return strings.Compare(a.Name, b.Name) })
	d.Group.Constraints, d.Group.Affinities, d.Group.Spreads = sortedByHash(g.Constraints), sortedByHash(g.Affinities), sortedByHash(g.Spreads)
	if g.Stream == nil {
		return d
	}
	d.Placement = g.Stream.Placement
	d.Placement.Colocate, d.Placement.Exlocate = sorted(d.Placement.Colocate), sorted(d.Placement.Exlocate)
	for _, p := range x.spec.HostPools {
		if p.Name == d.Placement.Pool {
			d.Pool = poolOf(p)
		}
	}
	return d
}

// poolOf returns the pool with its tags sorted. Its hosts keep their order,
// because they are addressed by position.
func poolOf(p berth.HostPoolSpec) *berth.HostPoolSpec {
	p.Tags = sorted(p.Tags)
	return &p
}

// sorted returns a sorted copy: the order of such lists has no meaning.
func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// sortedByHash returns constraints or the like in an order that does not depend
// on how they were written.
func sortedByHash[T any](list []T) []T {
	if len(list) < 2 {
		return list
	}
	type keyed struct {
		key string
		of  T
	}
	all := make([]keyed, len(list))
	for i, v := range list {
		key, _ := hashOf(v) // these types can always be hashed
		all[i] = keyed{key, v}
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return strings.Compare(a.key, b.key) })
	out := make([]T, len(list))
	for i := range all {
		out[i] = all[i].of
	}
	return out
}
