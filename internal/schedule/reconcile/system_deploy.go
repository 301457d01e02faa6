package reconcile

import "berth"

// A system job has an instance on each node, so its deployment differs from
// that of a service: the number of instances follows from the nodes, a canary
// takes the place of its node's instance, and the canary value is a percentage
// of the nodes. Without canaries, and after their promotion, the update
// advances by time alone, and the deployment only records progress.

// deploymentCurrent reports whether the newest deployment is that of the job's
// newest version.
func (r *perNode) deploymentCurrent() bool {
	d, j := r.Deployment, r.Job
	return d != nil && j.Type == berth.TypeSystem && d.JobUID == j.UID && d.JobVersion == j.Version
}

// currentRollout returns the rollout of a group by the existing deployment.
func (r *perNode) currentRollout(g *berth.TaskGroup) rollout {
	if !r.deploymentCurrent() {
		return rollout{}
	}
	return rolloutOf(r.Deployment, g.Name)
}

// deployments adjusts the sizes of the deployment that the groups follow, or
// creates one if the version has none.
func (r *perNode) deployments(all []*nodeGroup) {
	r.cancelStale()
	d, j := r.Deployment, r.Job
	switch {
	case j == nil || j.Stop || j.Type != berth.TypeSystem:
	case r.deploymentCurrent():
		if d.Active() {
			r.resize(all)
		}
	default:
		r.deploy(all)
	}
}

// deploy creates a deployment if any group has something to do for the version,
// and a node to do it on.
func (r *perNode) deploy(all []*nodeGroup) {
	begins := false
	for _, s := range all {
		begins = begins || (s.begins || r.vacant(s) > 0) && gradual(s.group) && r.total(s) > 0
	}
	if !begins {
		return
	}
	// It covers every gradual group, with the nodes that each has now.
	d := r.newDeployment()
	for _, s := range all {
		if !gradual(s.group) {
			continue
		}
		state := r.newDeploymentState(s.group, r.total(s))
		if n := len(s.outdated) + r.vacant(s); n > 0 && !r.goesBack(s) {
			state.DesiredCanaries = min(r.canaryShare(s, state.DesiredTotal), n)
		}
		d.TaskGroups[s.group.Name] = state
		s.roll = rollout{stepwise: true, canaries: state.DesiredCanaries, state: state}
		if state.Waits() {
			d.StatusDescription = berth.DeploymentWaits
		}
	}
	r.Deploy = d
}

// goesBack reports whether only canaries of earlier versions must be replaced,
// and the newest version has the tasks that ran before them. That needs no
// canaries. A canary without a predecessor that is still stored does not go
// back.
func (r *perNode) goesBack(s *nodeGroup) bool {
	if r.vacant(s) > 0 {
		return false
	}
	for _, a := range s.outdated {
		if !isCanary(a) {
			return false
		}
	}
	byID := make(map[berth.AllocID]*berth.Alloc, len(r.Allocs))
	for _, a := range r.Allocs {
		byID[a.ID] = a
	}
	for _, a := range s.outdated {
		before := a
		for before != nil && isCanary(before) {
			before = byID[before.Rest().Previous]
		}
		if before == nil || r.older(s, before) {
			return false
		}
	}
	return true
}

// vacant counts the spots where an instance with other tasks than the newest
// version's was stopped to be replaced, and nothing is placed yet.
func (r *perNode) vacant(s *nodeGroup) (n int) {
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			a := s.previous[at]
			if a != nil && s.kept[at] == nil && isReplaced(a) && r.older(s, a) && r.feasible(s, place) {
				n++
			}
		}
	}
	return n
}

// canaryShare returns the number of canaries among total instances: canary is a
// percentage, rounded up.
func (r *perNode) canaryShare(s *nodeGroup, total int) int {
	return (s.group.Update.Canary*total + 99) / 100
}

// total counts the instances that should exist on nodes that can take them now.
// Instances on other nodes stay as they are, and no deployment waits for them.
func (r *perNode) total(s *nodeGroup) (n int) {
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			if !s.waits[at] && (s.kept[at] != nil || r.feasible(s, place)) {
				n++
			}
		}
	}
	return n
}

// resize updates the deployment's number of instances and, with it, of
// canaries. If no node is left, the deployment is cancelled, unless it is paused
// or canaries wait to be promoted: what was not allowed before the nodes went
// must not be allowed because they come back.
func (r *perNode) resize(all []*nodeGroup) {
	sizes, sum := map[string]berth.DeploymentSize{}, 0
	for _, s := range all {
		state := s.roll.state
		if state == nil {
			continue
		}
		size := r.size(s)
		if s.roll.canaries > 0 {
			s.roll.canaries = size.Canaries
		}
		sum += size.Total
		if size.Total != state.DesiredTotal || size.Canaries != state.DesiredCanaries {
			sizes[s.group.Name] = size
		}
	}
	// A deployment without a node left has nothing to wait for.
	switch d := r.Deployment; {
	case sum == 0 && d.Status == berth.DeploymentRunning:
		r.Deployed = &DeploymentChange{ID: d.ID, Status: berth.DeploymentCancelled, Description: berth.DeploymentNoNode}
		for _, s := range all {
			s.roll = rollout{}
		}
	case len(sizes) > 0:
		r.Deployed = &DeploymentChange{ID: d.ID, Sizes: sizes}
	}
}

// size returns how many instances and canaries the deployment should have in a
// group. There are no more canaries than can still be placed, but at least one
// while there is anything that must wait for a promotion.
func (r *perNode) size(s *nodeGroup) berth.DeploymentSize {
	state := s.roll.state
	size := berth.DeploymentSize{Total: r.total(s), Canaries: state.DesiredCanaries}
	if s.roll.canaries > 0 {
		have, unproven, possible := r.canaries(s)
		size.Canaries = min(size.Canaries, have+unproven+possible, r.canaryShare(s, size.Total))
		switch {
		case size.Canaries > 0 || !r.mustWait(s):
		case size.Total == 0: // there is no canary without an instance
			return berth.DeploymentSize{Total: state.DesiredTotal, Canaries: state.DesiredCanaries}
		default:
			size.Canaries = 1
		}
	}
	size.Canaries = min(size.Canaries, size.Total)
	return size
}

// mustWait reports whether a node, reachable or not, has or had an unpromoted
// canary, or since the deployment began an instance that the newest version must
// not replace before the promotion.
func (r *perNode) mustWait(s *nodeGroup) bool {
	for _, spots := range []map[spot]*berth.Alloc{s.kept, s.previous} {
		for at, a := range spots {
			older := r.older(s, a) && (a.Wanted() || a.AllocModifyIndex >= r.Deployment.CreateIndex)
			if int(at.index) < s.group.Count && r.Node(at.node) != nil && (older || r.canaryFor(s, a)) {
				return true
			}
		}
	}
	return false
}

// older reports whether the newest version has other tasks than an allocation
// of an earlier one.
func (r *perNode) older(s *nodeGroup, a *berth.Alloc) bool {
	return a.Job.Version != r.Job.Version && r.differs(a, s.group)
}

// canaryFor reports whether the replacement of an allocation is a canary: prev
// was one of this deployment, or was stopped so that one takes its spot.
func (r *perNode) canaryFor(s *nodeGroup, prev *berth.Alloc) bool {
	if s.roll.canaries == 0 || s.roll.broken || prev == nil {
		return false
	}
	return s.roll.member(prev) && isCanary(prev) || s.chosen[prev.ID] || r.yieldedToCanary(s, prev)
}

// yieldedToCanary reports whether an earlier plan of this deployment stopped
// prev for a canary that is not placed yet, for example because prev holds a
// port until it has ended. Before its promotion a deployment replaces nothing
// else.
func (r *perNode) yieldedToCanary(s *nodeGroup, prev *berth.Alloc) bool {
	return !s.roll.id.IsZero() && !prev.Wanted() && isReplaced(prev) && prev.Rest().Next.IsZero() &&
		prev.AllocModifyIndex >= r.Deployment.CreateIndex
}

// canaries counts the spots of canaries: the healthy ones, those that are not
// healthy yet or are missing, and those where a canary could be placed. A canary
// counts while its node is heard from, even if that takes no new allocations.
func (r *perNode) canaries(s *nodeGroup) (proven, unproven, possible int) {
	for at, a := range s.kept {
		n := r.Node(at.node)
		switch {
		case !isCanary(a) || !s.roll.member(a) || n == nil || n.Status != berth.NodeReady:
		case s.roll.healthy(a) && a.Live():
			proven++
		default:
			unproven++
		}
	}
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			prev := s.previous[at]
			switch {
			case s.outdated[at] != nil:
				possible++
			case s.kept[at] != nil || prev == nil || !r.feasible(s, place):
			case r.canaryFor(s, prev):
				unproven++
			case r.older(s, prev):
				possible++
			}
		}
	}
	return proven, unproven, possible
}

// freeCanaries returns how many more canaries can be placed now: up to the
// desired number, with at most max_parallel of them not yet healthy.
func (r *perNode) freeCanaries(s *nodeGroup) int {
	proven, unproven, _ := r.canaries(s)
	return min(s.roll.canaries-proven, s.group.Update.MaxParallel) - unproven
}

// chooseVacant lets canaries take spots where nothing runs, and where an older
// version would be placed again without them. may reports for the last
// allocation of a spot whether a canary may take the spot.
func (r *perNode) chooseVacant(s *nodeGroup, may func(*berth.Alloc) bool) {
	if s.roll.canaries == 0 || s.roll.held {
		return
	}
	free := r.freeCanaries(s)
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			prev := s.previous[at]
			if free > 0 && s.kept[at] == nil && prev != nil && may(prev) && r.older(s, prev) && !r.canaryFor(s, prev) && r.feasible(s, place) {
				free--
				s.chosen[prev.ID] = true
			}
		}
	}
}

// isReplaced reports whether an allocation was stopped to be replaced by a newer
// version.
func isReplaced(a *berth.Alloc) bool { return a.Rest().StopReason == berth.StopReplaced }

// succeeded ends the deployment as successful if every node that can run
// instances of its groups has healthy ones of the newest version.
func (r *perNode) succeeded(all []*nodeGroup) {
	d := r.Deployment
	if d == nil || d.Status != berth.DeploymentRunning || r.Deployed != nil && r.Deployed.Status != "" || r.Job == nil {
		return
	}
	for _, s := range all {
		if s.roll.stepwise && !r.complete(s) {
			return
		}
	}
	if r.Deployed == nil {
		r.Deployed = &DeploymentChange{ID: d.ID}
	}
	r.Deployed.Status, r.Deployed.Description = berth.DeploymentSuccessful, berth.DeploymentDone
}

// complete reports whether the newest version runs, healthy, on every node that
// is feasible for the group.
func (r *perNode) complete(s *nodeGroup) bool {
	if s.roll.canaries > 0 {
		return false
	}
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			switch a := s.kept[at]; {
			case s.waits[at]:
			case a == nil && r.feasible(s, place):
				return false
			case a != nil && (!a.Live() || a.Job.Version != r.Job.Version || !s.roll.healthy(a)):
				return false
			}
		}
	}
	return true
}
