package state

import (
	"fmt"
	"io"

	"berth"
	"berth/internal/state/codec"
)

// Load reads what Save wrote. A snapshot that is damaged or of a newer version
// is an error that says so; nothing of it is used.
func Load(from io.Reader) (*Snapshot, error) {
	l := &loader{tx: Begin(&Snapshot{})}
	err := codec.ReadSnapshot(from, func(version int, kind codec.Kind, r *codec.Reader) error {
		l.format = version
		err := l.record(kind, r)
		if r.Err() != nil { // what was read after the damage means nothing
			return r.Err()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.finish(), nil
}

// Verify reads what Save wrote and checks that it is complete and undamaged. It
// does not decode the rows, so it takes a tenth of Load's time.
func Verify(from io.Reader) error {
	return codec.ReadSnapshot(from, func(version int, kind codec.Kind, r *codec.Reader) error {
		if kind != codec.Head {
			return nil
		}
		l := &loader{tx: Begin(&Snapshot{}), format: version}
		return loadHead(l, r)
	})
}

// loaders has the function that reads each kind of record.
var loaders = map[codec.Kind]func(*loader, *codec.Reader) error{
	codec.Head:            loadHead,
	codec.Namespace:       loadNamespace,
	codec.Node:            loadNode,
	codec.JobVersion:      loadJobVersion,
	codec.Job:             loadJob,
	codec.History:         loadHistory,
	codec.Submission:      loadSubmission,
	codec.Eval:            loadEval,
	codec.Alloc:           loadAlloc,
	codec.Deployment:      loadDeployment,
	codec.Reschedules:     loadReschedules,
	codec.Explanation:     loadExplanation,
	codec.Scheduler:       loadScheduler,
	codec.NodePool:        loadNodePool,
	codec.Scaling:         loadScaling,
	codec.Service:         loadService,
	codec.Autopilot:       loadAutopilot,
	codec.TrackedVersions: loadTrackedVersions,
	codec.Restored:        loadRestored,
	codec.Deletion:        loadDeletion,
	codec.Stream:          loadStream,
	codec.Resource:        loadResource,
	codec.StreamIDs:       loadStreamIDs,
	codec.Cluster:         loadCluster,
	codec.RootKey:         loadRootKey,
	codec.Variable:        loadVariable,
	codec.ACLToken:        loadACLToken,
	codec.ACLPolicy:       loadACLPolicy,
	codec.ACLRole:         loadACLRole,
	codec.ACLBootstrap:    loadACLBootstrap,
	codec.ACLAuthMethod:   loadAuthMethod,
	codec.ACLBindingRule:  loadBindingRule,
	codec.ACLOneTimeToken: loadOneTimeToken,
	codec.Quota:           loadQuota,
	codec.HostVolume:      loadHostVolume,
	codec.HostVolumeClaim: loadHostVolumeClaim,
	codec.CSIVolume:       loadCSIVolume,
	codec.CSIClaim:        loadCSIClaim,
	codec.CSIPlugin:       loadCSIPlugin,
}

// record loads one record of a saved snapshot. Errors of r are left to the
// caller; an unknown kind means that a newer build wrote it.
func (l *loader) record(kind codec.Kind, r *codec.Reader) error {
	load, ok := loaders[kind]
	if !ok {
		return fmt.Errorf("unknown kind of record %d", kind)
	}
	return load(l, r)
}

// loadHead reads the header. Its length must fit its version, which confirms
// the version: the checksum does not cover that.
func loadHead(l *loader, r *codec.Reader) error {
	s := l.tx.Snapshot
	s.Index, s.Term, s.TermIndex = r.Uint(), r.Uint(), r.Uint()
	s.LogVersion = codec.LogVersionOf(l.format)
	for t := range tablesOf(l.format) {
		l.changed[t] = r.Uint()
	}
	if r.Err() == nil && r.Left() > 0 {
		return fmt.Errorf("the header is longer than version %d has it", l.format)
	}
	return r.Err()
}

// finish sets what inserting rows did not.
func (l *loader) finish() *Snapshot {
	s := l.tx.Snapshot
	for t := range l.changed { // including tables that its version does not know
		// These two have rows in an empty state, which has index 1.
		if l.changed[t] == 1 && Table(t) != Namespaces && Table(t) != NodePools {
			l.changed[t] = 0
		}
		l.changed[t] = max(l.changed[t], s.Restored)
	}
	l.oldPools()
	for _, slot := range s.streams.byUID.All() {
		row, at := s.streams.vec.Get(slot), s.Index
		if j := s.Job(row.Key); j == nil || j.UID != row.UID {
			at = gone
		}
		l.tx.streams.touch(l.tx, slot, at)
	}
	for _, n := range l.preemptors {
		l.tx.recount(l.tx.nodes.usage.Edit(l.tx.edit, n.Number), n)
	}
	s.pools.changed, s.services.changed = l.changed[NodePools], l.changed[Services]
	s.namespaces.changed, s.nodes.changed, s.jobs.changed = l.changed[Namespaces], l.changed[Nodes], l.changed[Jobs]
	s.evals.changed, s.allocs.changed = l.changed[Evals], l.changed[Allocs]
	s.deployments.changed, s.jobs.summaryChanged = l.changed[Deployments], l.changed[Summaries]
	s.streams.changed, s.resources.changed = l.changed[Streams], l.changed[Resources]
	s.rootKeys.changed, s.variables.changed = l.changed[RootKeys], l.changed[Variables]
	s.acl.tokens.changed, s.acl.policies.changed, s.acl.roles.changed = l.changed[ACLTokens], l.changed[ACLPolicies], l.changed[ACLRoles]
	s.acl.methods.changed, s.acl.rules.changed, s.acl.oneTime.changed = l.changed[ACLAuthMethods], l.changed[ACLBindingRules], l.changed[ACLOneTimeTokens]
	l.countQuotas()
	s.quotas.changed, s.quotas.counted = l.changed[Quotas], l.changed[QuotaUsages]
	s.hostVolumes.changed, s.hostVolumes.claims.changed = l.changed[HostVolumes], l.changed[HostVolumeClaims]
	l.findRunners()
	s.csi.changed, s.csi.claims.changed, s.csi.plugins.changed = l.changed[CSIVolumes], l.changed[CSIClaims], l.changed[CSIPlugins]
	s.traces = traces{since: s.Index}
	return l.tx.Seal()
}

// oldPools creates the node pools that a snapshot of an older version only
// implies: those that its nodes and jobs name.
func (l *loader) oldPools() {
	if l.format >= codec.PoolsSince {
		return
	}
	l.tx.builtInPools()
	for n := range l.tx.Nodes() {
		l.tx.ensureNodePool(n.NodePool)
	}
	for j := range l.tx.Jobs(berth.AllNamespaces, "") {
		l.tx.ensureNodePool(j.NodePool)
	}
	l.changed[NodePools] = l.tx.Index
}
