package state

import (
	"berth"
)

// WatchKey names something that can be watched for changes.
type WatchKey struct {
	table Table
	kind  watchKind
	hash  uint64 // of what is watched; two things may share it
}

// watchKind is what a WatchKey covers.
type watchKind uint8

const (
	watchTable   watchKind = iota // any row of the table
	watchOne                      // one row
	watchJob                      // rows that belong to one job
	watchNode                     // rows that belong to one node, but for what its agent reported
	watchReports                  // rows that belong to one node
	watchEval                     // rows that belong to one evaluation
	watchAlloc                    // rows that belong to one allocation
	watchPE                       // rows that belong to one processing element
	watchRoutes                   // rows that determine the routes of one namespace
	watchKinds
)

// OnTable is any change of a table.
func OnTable(t Table) WatchKey { return WatchKey{t, watchTable, 0} }

// OnJob is a change of a job or of its counts.
func OnJob(k berth.JobKey) WatchKey { return WatchKey{Jobs, watchOne, keyHash(k)} }

// OnNode is a change of a node.
func OnNode(id berth.NodeID) WatchKey { return WatchKey{Nodes, watchOne, halfOf(id)} }

// OnEval is a change of an evaluation.
func OnEval(id berth.EvalID) WatchKey { return WatchKey{Evals, watchOne, halfOf(id)} }

// OnEvalsOf is a change of any evaluation of a job.
func OnEvalsOf(k berth.JobKey) WatchKey { return WatchKey{Evals, watchJob, keyHash(k)} }

// OnAlloc is a change of an allocation.
func OnAlloc(id berth.AllocID) WatchKey { return WatchKey{Allocs, watchOne, halfOf(id)} }

// OnAllocsOf is a change of any allocation of a job.
func OnAllocsOf(k berth.JobKey) WatchKey { return WatchKey{Allocs, watchJob, keyHash(k)} }

// OnAllocsOn is a change of any allocation of a node other than by a report of its
// agent.
func OnAllocsOn(id berth.NodeID) WatchKey { return WatchKey{Allocs, watchNode, halfOf(id)} }

// OnReportsOf is any change of any allocation of a node.
func OnReportsOf(id berth.NodeID) WatchKey { return WatchKey{Allocs, watchReports, halfOf(id)} }

// OnAllocsBy is a change of any allocation of an evaluation.
func OnAllocsBy(id berth.EvalID) WatchKey { return WatchKey{Allocs, watchEval, halfOf(id)} }

// OnDeployment is a change of a deployment.
func OnDeployment(id berth.DeploymentID) WatchKey {
	return WatchKey{Deployments, watchOne, halfOf(id)}
}

// OnDeploymentsOf is a change of any deployment of a job.
func OnDeploymentsOf(k berth.JobKey) WatchKey { return WatchKey{Deployments, watchJob, keyHash(k)} }

// OnNamespace is a change of a namespace.
func OnNamespace(name string) WatchKey { return WatchKey{Namespaces, watchOne, hash(name)} }

// OnNodePool is a change of a node pool.
func OnNodePool(name string) WatchKey { return WatchKey{NodePools, watchOne, hash(name)} }

// OnService is a change of any registration of a service.
func OnService(k berth.ServiceKey) WatchKey {
	return WatchKey{Services, watchOne, hash(k.Namespace, k.Name)}
}

// OnServicesOf is a change of any registration of an allocation.
func OnServicesOf(id berth.AllocID) WatchKey { return WatchKey{Services, watchAlloc, halfOf(id)} }

// OnVariable is a change of a variable.
func OnVariable(k berth.VariableKey) WatchKey {
	return WatchKey{Variables, watchOne, hash(k.Namespace, k.Path)}
}

// OnStreamOf is a change of the submission of any incarnation of a stream job.
func OnStreamOf(k berth.JobKey) WatchKey { return WatchKey{Streams, watchJob, keyHash(k)} }

// OnResource is a change of a resource of a stream job.
func OnResource(uid berth.UID) WatchKey { return WatchKey{Resources, watchOne, uidHash(uid)} }

// OnAllocsOfPE is a change of any allocation of a processing element.
func OnAllocsOfPE(uid berth.UID) WatchKey { return WatchKey{Allocs, watchPE, uidHash(uid)} }

// OnResourcesOf is a change of any resource that a stream job owns or orphaned.
func OnResourcesOf(k berth.JobKey) WatchKey { return WatchKey{Resources, watchJob, keyHash(k)} }

// OnRoutes is a change that may affect which routes a namespace has, but not of
// the allocations that they lead to; see Snapshot.LastOfRoutes.
func OnRoutes(namespace string) WatchKey {
	return WatchKey{Resources, watchRoutes, routesHash(namespace)}
}
