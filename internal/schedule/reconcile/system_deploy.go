package reconcile

import "berth"

// A system job has an instance on each node, so a deployment of one differs from
// that of a service: how many instances it is about follows from the nodes, a
// canary takes the place of what its node has, and canaries are a share of the
// nodes. Without canaries, and after their promotion, the update goes on by time
// alone; the deployment notes how it fares.

// deploymentCurrent says whether the newest deployment is that of the job's version.
func (r *perNode) deploymentCurrent() bool {
	d, j := r.Deployment, r.Job
	return d != nil && j.Type == berth.TypeSystem && d.JobUID == j.UID && d.JobVersion == j.Version
}

// currentRollout is how a group goes on that follows a deployment which is there.
func (r *perNode) currentRollout(g *berth.TaskGroup) rollout {
	if !r.deploymentCurrent() {
		return rollout{}
	}
	return rolloutOf(r.Deployment, g.Name)
}

// deployments resizes the deployment that the groups follow, and makes one where
// there is none for the version.
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

// deploy makes a deployment if any group has something to do for the version,
// and a node to do it on.
func (r *perNode) deploy(all []*nodeGroup) {
	begins := false
	for _, s := range all {
		begins = begins || s.begins && gradual(s.group) && r.total(s) > 0
	}
	if !begins {
		return
	}
	d := r.newDeployment()
	for _, s := range all {
		if !gradual(s.group) {
			continue
		}
		state := r.newDeploymentState(s.group, r.total(s))
		if s.replacesPlain() {
			state.DesiredCanaries = min(r.canaryShare(s, state.DesiredTotal), len(s.outdated))
		}
		d.TaskGroups[s.group.Name] = state
		s.roll = rollout{stepwise: true, canaries: state.DesiredCanaries, state: state}
		if state.Waits() {
			d.StatusDescription = berth.DeploymentWaits
		}
	}
	r.Deploy = d
}

// replacesPlain says whether anything is to be replaced but canaries of an earlier
// version. These alone are replaced without others: the job goes back.
func (s *nodeGroup) replacesPlain() bool {
	for _, a := range s.outdated {
		if !isCanary(a) {
			return true
		}
	}
	return false
}

// canaryShare is how many canaries so many instances have: canary is a percentage,
// and part of an instance is a whole one.
func (r *perNode) canaryShare(s *nodeGroup, total int) int {
	return (s.group.Update.Canary*total + 99) / 100
}

// total counts the instances that there should be on nodes that can have them
// now. Those on other nodes stay as they are, and no deployment waits for them.
func (r *perNode) total(s *nodeGroup) (n int) {
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			if s.kept[spot{node.ID, index}] != nil || r.feasible(s, place) {
				n++
			}
		}
	}
	return n
}

// resize tells the deployment how many instances it is about, and how many
// canaries there can be of these. Where no node is left, it ends.
func (r *perNode) resize(all []*nodeGroup) {
	sizes, sum := map[string]berth.DeploymentSize{}, 0
	for _, s := range all {
		state := s.roll.state
		if state == nil {
			continue
		}
		size := berth.DeploymentSize{Total: r.total(s), Canaries: state.DesiredCanaries}
		if s.roll.canaries > 0 {
			have, unproven, possible := r.canaries(s)
			size.Canaries = min(size.Canaries, have+unproven+possible, r.canaryShare(s, size.Total))
			s.roll.canaries = size.Canaries
		}
		size.Canaries = min(size.Canaries, size.Total)
		sum += size.Total
		if size.Total != state.DesiredTotal || size.Canaries != state.DesiredCanaries {
			sizes[s.group.Name] = size
		}
	}
	switch d := r.Deployment; {
	case sum == 0:
		r.Deployed = &DeploymentChange{ID: d.ID, Status: berth.DeploymentCancelled, Description: berth.DeploymentNoNode}
		for _, s := range all {
			s.roll = rollout{}
		}
	case len(sizes) > 0:
		r.Deployed = &DeploymentChange{ID: d.ID, Sizes: sizes}
	}
}

// canaryFor says whether what replaces an allocation is a canary.
func (s *nodeGroup) canaryFor(prev *berth.Alloc) bool {
	if s.roll.canaries == 0 || s.roll.broken || prev == nil {
		return false
	}
	return s.roll.member(prev) && isCanary(prev) || s.chosen[prev.ID]
}

// canaries counts the spots of canaries: those proven, those that are not yet or
// lack theirs, and those where there can be one.
func (r *perNode) canaries(s *nodeGroup) (proven, unproven, possible int) {
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			at := spot{node.ID, index}
			switch a := s.kept[at]; {
			case a == nil:
				if prev := s.previous[at]; prev != nil && isCanary(prev) && s.roll.member(prev) && r.feasible(s, place) {
					unproven++
				}
			case s.outdated[at] != nil:
				possible++
			case isCanary(a) && s.roll.member(a) && s.roll.healthy(a) && a.Live():
				proven++
			case isCanary(a) && s.roll.member(a):
				unproven++
			}
		}
	}
	return proven, unproven, possible
}

// freeCanaries says how many canaries more can be placed now: as many as are to
// be, and no more than max_parallel of them not yet proven.
func (r *perNode) freeCanaries(s *nodeGroup) int {
	proven, unproven, _ := r.canaries(s)
	return min(s.roll.canaries-proven, s.group.Update.MaxParallel) - unproven
}

// succeeded ends the deployment as successful if every node that can have
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

func (r *perNode) complete(s *nodeGroup) bool {
	if s.roll.canaries > 0 {
		return false
	}
	for place, node := range r.Nodes {
		for index := range uint32(s.group.Count) {
			switch a := s.kept[spot{node.ID, index}]; {
			case a == nil && r.feasible(s, place):
				return false
			case a != nil && (!a.Live() || a.Job.Version != r.Job.Version || !s.roll.healthy(a)):
				return false
			}
		}
	}
	return true
}
