package state

import "reflect"

// init fills the table of commands. A new command has its own file and a line
// here. A number is never reused.
func init() {
	kinds = []kind{
		1:  {make: func() Command { return &BeginTerm{} }, since: 1, feature: "the ID of a cluster"},
		2:  {make: func() Command { return &RegisterJob{} }, since: 1, feature: streamJobs, cause: "register"},
		3:  {make: func() Command { return &StopJob{} }, since: 1, cause: "stop"},
		4:  {make: func() Command { return &RegisterNode{} }, since: 1},
		5:  {make: func() Command { return &SetNodeStatus{} }, since: 1},
		6:  {make: func() Command { return &ApplyPlan{} }, since: 1, feature: "the quarantine of jobs whose scheduling takes too much work", counted: true},
		7:  {make: func() Command { return &ReportAllocs{} }, since: 1},
		8:  {make: func() Command { return &CancelEvals{} }, since: 1, feature: "pointers to the successors of evaluations"},
		9:  {make: func() Command { return &FailEval{} }, since: 1},
		10: {make: func() Command { return &AddNodeEvents{} }, since: 1},
		11: {make: func() Command { return &CreateEvals{} }, since: 1, feature: "evaluations for allocations of a deleted job"},
		12: {make: func() Command { return &DeleteRows{} }, since: 1, cause: "gc"},
		13: {make: func() Command { return &RaiseCore{} }, since: 1},
		14: {make: func() Command { return &SetSchedulerConfig{} }, since: 1},
		15: {make: func() Command { return &UpsertNodePools{} }, since: 1},
		16: {make: func() Command { return &DeleteNodePools{} }, since: 1},
		17: {make: func() Command { return &SetNodeEligibility{} }, since: 1},
		18: {make: func() Command { return &EvaluateJob{} }, since: 1},
		19: {make: func() Command { return &SetDeploymentStatus{} }, since: 1},
		20: {make: func() Command { return &PromoteDeployment{} }, since: 1},
		21: {make: func() Command { return &SetAllocHealth{} }, since: 1},
		22: {make: func() Command { return &FailDeployment{} }, since: 1},
		23: {make: func() Command { return &StepDeployments{} }, since: 1},
		24: {make: func() Command { return &SetTrackedVersions{} }, since: 1},
		25: {make: func() Command { return &UpdateDrain{} }, since: 1},
		26: {make: func() Command { return &MigrateAllocs{} }, since: 1},
		27: {make: func() Command { return &FinishDrain{} }, since: 1},
		28: {make: func() Command { return &LaunchPeriodic{} }, since: 1},
		30: {make: func() Command { return &DispatchJob{} }, since: 1},
		31: {make: func() Command { return &RevertJob{} }, since: 1, cause: "revert"},
		32: {make: func() Command { return &SetJobStability{} }, since: 1, cause: "stability"},
		33: {make: func() Command { return &TagVersion{} }, since: 1, cause: "tag"},
		34: {make: func() Command { return &ScaleJob{} }, since: 1, cause: "scale"},
		37: {make: func() Command { return &StopAlloc{} }, since: 1},
		40: {make: func() Command { return &UpsertServices{} }, since: 1},
		41: {make: func() Command { return &DeleteServices{} }, since: 1},
		42: {make: func() Command { return &CheckHash{} }, since: 1},
		43: {make: func() Command { return &SetAutopilotConfig{} }, since: 1},
		44: {make: func() Command { return &DeleteJob{} }, since: 2, cause: "delete"},
		45: {make: func() Command { return &FinalizeDeletions{} }, since: 2, feature: "deletion of jobs with propagation foreground", cause: "finalize", counted: true},
		46: {make: func() Command { return &PlanSubmission{} }, since: 2, feature: streamJobs, cause: "plan", counted: true},
		47: {make: func() Command { return &EnsureResources{} }, since: 2, feature: streamJobs, cause: "submission", counted: true},
		48: {make: func() Command { return &LaunchPE{} }, since: 2, feature: streamJobs, cause: "launch", counted: true},
		49: {make: func() Command { return &CompleteSubmission{} }, since: 2, feature: streamJobs, cause: "complete", counted: true},
		50: {make: func() Command { return &DeleteResource{} }, since: 2, feature: streamJobs, cause: "user"},
		51: {make: func() Command { return &CollectResources{} }, since: 2, feature: streamJobs, cause: "gc", counted: true},
		52: {make: func() Command { return &SetConnectivity{} }, since: 2, feature: streamJobs, cause: "report", counted: true},
		53: {make: func() Command { return &RecoverJobs{} }, since: 2, feature: streamJobs, cause: "recover", counted: true},
		54: {make: func() Command { return &FailSubmission{} }, since: 2, feature: streamJobs, cause: "fail", counted: true},
		55: {make: func() Command { return &SetExport{} }, since: 2, feature: streamJobs, cause: "user"},
		56: {make: func() Command { return &SetImport{} }, since: 2, feature: streamJobs, cause: "user"},
		57: {make: func() Command { return &RaiseLogVersion{} }, since: 3, feature: "pointers between evaluations and deployments"},
		58: {make: func() Command { return &UpsertNamespaces{} }, since: 4, feature: "namespaces"},
		59: {make: func() Command { return &DeleteNamespaces{} }, since: 4, feature: "namespaces"},
		70: {make: func() Command { return &AddRootKey{} }, since: 4, feature: secrets},
		71: {make: func() Command { return &StepRootKeys{} }, since: 4, feature: secrets, counted: true},
		72: {make: func() Command { return &RemoveRootKey{} }, since: 4, feature: secrets},
		73: {make: func() Command { return &RekeyVariables{} }, since: 4, feature: secrets, counted: true},
		80: {make: func() Command { return &PutVariable{} }, since: 4, feature: secrets},
		81: {make: func() Command { return &DeleteVariable{} }, since: 4, feature: secrets},
		82: {make: func() Command { return &StepLocks{} }, since: 4, feature: secrets, counted: true},
	}
	for n, k := range kinds {
		if k.make != nil {
			numbers[reflect.TypeOf(k.make())] = Number(n)
		}
	}
}
