package cli

import "strings"

// commands is the tree. A new command is one file with one constructor, and
// one line here.
func commands() []*command {
	all := []*command{
		agentCommand(),
		agentInfoCommand(),
		deploymentFailCommand(),
		deploymentListCommand(),
		deploymentPauseCommand(),
		deploymentPromoteCommand(),
		deploymentResumeCommand(),
		deploymentStatusCommand(),
		deploymentUnblockCommand(),
		jobDeploymentsCommand(),
		jobDispatchCommand(),
		jobEvalCommand(),
		jobExplainCommand(),
		jobPeriodicForceCommand(),
		jobPlanCommand(),
		jobHistoryCommand(),
		jobInspectCommand(),
		jobPromoteCommand(),
		jobRestartCommand(),
		jobRevertCommand(),
		jobRunCommand(),
		jobScaleCommand(),
		jobScalingEventsCommand(),
		jobStatusCommand(),
		jobStopCommand(),
		jobTagApplyCommand(),
		jobTagUnsetCommand(),
		jobTreeCommand(),
		jobValidateCommand(),
		nodeConfigCommand(),
		nodeDrainCommand(),
		nodeEligibilityCommand(),
		nodePoolApplyCommand(),
		nodePoolDeleteCommand(),
		nodePoolInfoCommand(),
		nodePoolInitCommand(),
		nodePoolJobsCommand(),
		nodePoolListCommand(),
		nodePoolNodesCommand(),
		nodeStatusCommand(),
		allocStatusCommand(),
		allocChecksCommand(),
		allocLogsCommand(),
		allocRestartCommand(),
		allocSignalCommand(),
		allocStopCommand(),
		evalDeleteCommand(),
		evalExplainCommand(),
		evalListCommand(),
		evalStatusCommand(),
		evalTraceCommand(),
		keyringGenerateCommand(),
		keyringInstallCommand(),
		keyringListCommand(),
		keyringRemoveCommand(),
		keyringUseCommand(),
		operatorAutopilotGetCommand(),
		operatorAutopilotHealthCommand(),
		operatorAutopilotSetCommand(),
		operatorRaftListCommand(),
		operatorRaftRemoveCommand(),
		operatorRaftTransferCommand(),
		operatorSchedulerGetCommand(),
		operatorSchedulerSetCommand(),
		operatorSnapshotInspectCommand(),
		operatorSnapshotRestoreCommand(),
		operatorSnapshotSaveCommand(),
		resourceDeleteCommand(),
		resourceListCommand(),
		scalingPolicyInfoCommand(),
		scalingPolicyListCommand(),
		serverForceLeaveCommand(),
		serverJoinCommand(),
		serverMembersCommand(),
		serviceDeleteCommand(),
		serviceInfoCommand(),
		serviceListCommand(),
		statusCommand(),
		streamPEsCommand(),
		streamRegionCommand(),
		streamRoutesCommand(),
		streamStatusCommand(),
		systemGCCommand(),
		tlsCACreateCommand(),
		tlsCAInfoCommand(),
		tlsCertCreateCommand(),
		tlsCertInfoCommand(),
		versionCommand(),
		superviseCommand(),
	}
	for _, c := range all[:len(all):len(all)] {
		for _, a := range aliases {
			if a.of == c.name {
				alias := *c
				alias.name, alias.hidden = a.name, true
				all = append(all, &alias)
			}
		}
	}
	return all
}

// groups say what the commands of a group are about.
var groups = map[string]string{
	"alloc":                   "Look at single instances of jobs",
	"deployment":              "Look at how jobs go from one version to the next, and change that",
	"eval":                    "Look at what is being decided about jobs",
	"job":                     "Run and stop jobs, and look at them",
	"job tag":                 "Name versions of jobs",
	"job periodic":            "Launch jobs that the clock launches",
	"node":                    "Look at the machines that run jobs",
	"node pool":               "Group nodes, and look at their groups",
	"service":                 "Look at where services are",
	"scaling":                 "Look at how jobs may be scaled",
	"scaling policy":          "Look at the scaling policies of jobs",
	"operator":                "Look after the cluster",
	"operator autopilot":      "Look at how the cluster looks after its servers, and change that",
	"operator raft":           "Look after the servers that agree on the state",
	"operator snapshot":       "Save the state of the cluster, and put it back",
	"tls":                     "Make and show certificates of agents",
	"resource":                "Look at objects with their owners, and delete them",
	"stream":                  "Look at stream jobs, and change them",
	"server":                  "Look at the servers, and let them join and leave",
	"operator gossip":         "Look after how servers tell each other who they are",
	"operator gossip keyring": "Look at and change the keys of the gossip",
	"tls ca":                  "Make and show authorities",
	"tls cert":                "Make and show certificates",
	"operator scheduler":      "Look at and change how the cluster is scheduled",
}

// aliases are the short and the old spellings that Nomad accepts.
var aliases = []struct{ name, of string }{
	{"inspect", "job inspect"}, {"plan", "job plan"}, {"run", "job run"}, {"stop", "job stop"}, {"validate", "job validate"}, {"logs", "alloc logs"},
	{"alloc-status", "alloc status"}, {"eval-status", "eval status"}, {"node-status", "node status"}, {"node-drain", "node drain"},
	{"server-members", "server members"}, {"server-join", "server join"}, {"server-force-leave", "server force-leave"}, {"client-config", "node config"},
}

// unbuiltCommands are those of Nomad's commands that this build refuses by
// name. Building a command removes its word.
var unbuiltCommands = unbuiltList(map[string]string{
	"":                  "action agent check debug exec fmt fs init login start ui",
	"acl":               "auth-method binding-rule bootstrap policy role token",
	"alloc":             "exec fs pause",
	"config":            "validate",
	"job":               "action allocs init start",
	"license":           "get inspect",
	"monitor":           "export",
	"namespace":         "apply delete inspect list status",
	"node":              "identity intro meta",
	"operator":          "api client-state debug metrics root utilization",
	"operator raft":     "info logs migrate-backend state",
	"operator snapshot": "agent redact state",
	"plugin":            "status",
	"quota":             "apply delete init inspect list status",
	"queue":             "jobs",
	"recommendation":    "apply dismiss info list",
	"sentinel":          "apply delete list read",
	"setup":             "consul vault",
	"system":            "reconcile",
	"var":               "get init list lock purge put",
	"volume":            "claim create delete deregister detach init register snapshot status",
})

func unbuiltList(groups map[string]string) (out []string) {
	for group, words := range groups {
		for _, w := range strings.Fields(words) {
			out = append(out, strings.TrimSpace(group+" "+w))
		}
	}
	return out
}
