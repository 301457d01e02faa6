package cli

import (
	"flag"
	"slices"
	"strings"
)

// commands is the tree. A new command is a file with a constructor, and a line
// here.
func commands() []*command {
	all := slices.Concat(jobCommands(), workCommands(), nodeCommands(), operatorCommands(), otherCommands())
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

// jobCommands are about jobs themselves.
func jobCommands() []*command {
	return []*command{
		jobActionCommand(),
		jobAllocsCommand(),
		jobDeploymentsCommand(),
		jobDiffCommand(),
		jobDispatchCommand(),
		jobEvalCommand(),
		jobExplainCommand(),
		jobPeriodicForceCommand(),
		jobPlanCommand(),
		jobHistoryCommand(),
		jobInitCommand(),
		jobInspectCommand(),
		jobPromoteCommand(),
		jobRestartCommand(),
		jobRevertCommand(),
		jobRunCommand(),
		jobScaleCommand(),
		jobScalingEventsCommand(),
		jobStartCommand(),
		jobStatusCommand(),
		jobStopCommand(),
		jobTagApplyCommand(),
		jobTagUnsetCommand(),
		jobTreeCommand(),
		jobValidateCommand(),
	}
}

// workCommands are about what becomes of jobs: allocations, evaluations and
// deployments.
func workCommands() []*command {
	return []*command{
		deploymentFailCommand(),
		deploymentListCommand(),
		deploymentPauseCommand(),
		deploymentPromoteCommand(),
		deploymentResumeCommand(),
		deploymentStatusCommand(),
		deploymentUnblockCommand(),
		allocStatusCommand(),
		allocChecksCommand(),
		allocExecCommand(),
		allocFSCommand(),
		allocLogsCommand(),
		allocPortForwardCommand(),
		allocPauseCommand(),
		allocRestartCommand(),
		allocSignalCommand(),
		allocStopCommand(),
		evalDeleteCommand(),
		evalExplainCommand(),
		evalListCommand(),
		evalStatusCommand(),
		evalTraceCommand(),
	}
}

// nodeCommands are about nodes and node pools.
func nodeCommands() []*command {
	return []*command{
		nodeConfigCommand(),
		nodeDrainCommand(),
		nodeEligibilityCommand(),
		nodeMetaApplyCommand(),
		nodeMetaReadCommand(),
		nodePoolApplyCommand(),
		nodePoolDeleteCommand(),
		nodePoolInfoCommand(),
		example{"node pool init", "node pool", "pool.nomad", "gpu.nomad.hcl", examplePools, outFlag}.command(),
		nodePoolJobsCommand(),
		nodePoolListCommand(),
		nodePoolNodesCommand(),
		nodeStatusCommand(),
		nodeWhatIfCommand(),
		nodeIdentityGetCommand(),
		nodeIdentityRenewCommand(),
		nodeIntroCreateCommand(),
	}
}

// operatorCommands are about the servers.
func operatorCommands() []*command {
	return []*command{
		keyringGenerateCommand(),
		keyringInstallCommand(),
		keyringListCommand(),
		keyringRemoveCommand(),
		keyringUseCommand(),
		operatorAPICommand(),
		auditListCommand(),
		auditVerifyCommand(),
		operatorAutopilotGetCommand(),
		operatorAutopilotHealthCommand(),
		operatorAutopilotSetCommand(),
		operatorClientStateCommand(),
		operatorDebugCommand(),
		operatorImportCommand(),
		operatorMetricsCommand(),
		operatorRaftInfoCommand(),
		operatorRaftListCommand(),
		operatorRaftLogsCommand(),
		operatorRaftRecoverCommand(),
		operatorRaftRemoveCommand(),
		operatorRaftStateCommand(),
		operatorRaftTransferCommand(),
		operatorSchedulerGetCommand(),
		rootKeyringListCommand(),
		rootKeyringRemoveCommand(),
		rootKeyringRotateCommand(),
		operatorSchedulerSetCommand(),
		operatorSnapshotInspectCommand(),
		operatorSnapshotRedactCommand(),
		operatorSnapshotRestoreCommand(),
		operatorSnapshotSaveCommand(),
		operatorSnapshotStateCommand(),
		serverForceLeaveCommand(),
		serverJoinCommand(),
		serverMembersCommand(),
		systemGCCommand(),
		systemReconcileSummariesCommand(),
		tlsCACreateCommand(),
		tlsCAInfoCommand(),
		tlsCertCreateCommand(),
		tlsCertInfoCommand(),
	}
}

// otherCommands are the agent itself and what fits no other list.
func otherCommands() []*command {
	return []*command{
		uiCommand(),
		aclBootstrapCommand(),
		authMethodCreateCommand(),
		authMethodDeleteCommand(),
		authMethodInfoCommand(),
		authMethodListCommand(),
		authMethodUpdateCommand(),
		bindingRuleCreateCommand(),
		bindingRuleDeleteCommand(),
		bindingRuleInfoCommand(),
		bindingRuleListCommand(),
		bindingRuleUpdateCommand(),
		aclCanCommand(),
		aclPolicyApplyCommand(),
		aclPolicyDeleteCommand(),
		aclPolicyInfoCommand(),
		aclPolicyListCommand(),
		aclPolicySelfCommand(),
		aclRoleCreateCommand(),
		aclRoleDeleteCommand(),
		aclRoleInfoCommand(),
		aclRoleListCommand(),
		aclRoleUpdateCommand(),
		aclTokenCreateCommand(),
		aclTokenDeleteCommand(),
		aclTokenInfoCommand(),
		aclTokenListCommand(),
		aclTokenSelfCommand(),
		aclTokenUpdateCommand(),
		agentCommand(),
		agentInfoCommand(),
		checkCommand(),
		completionCommand(),
		configValidateCommand(),
		fmtCommand(),
		loginCommand(),
		monitorCommand(),
		monitorExportCommand(),
		namespaceApplyCommand(),
		namespaceDeleteCommand(),
		namespaceInspectCommand(),
		namespaceListCommand(),
		namespaceStatusCommand(),
		volumeClaimDeleteCommand(),
		volumeClaimListCommand(),
		volumeCreateCommand(),
		volumeDeleteCommand(),
		volumeDeregisterCommand(),
		volumeDetachCommand(),
		example{"volume init", "volume", "volume", "data.volume.hcl", map[string]string{"hcl": exampleVolumeHCL, "json": exampleVolumeJSON, "csi.hcl": exampleCSIHCL, "csi.json": exampleCSIJSON}, volumeFormat}.command(),
		volumeRegisterCommand(),
		volumeSnapshotCreateCommand(),
		volumeSnapshotDeleteCommand(),
		volumeSnapshotListCommand(),
		volumeStatusCommand(),
		pluginStatusCommand(),
		quotaApplyCommand(),
		quotaDeleteCommand(),
		example{"quota init", "quota", "spec", "team-a.hcl", map[string]string{"hcl": exampleQuotaHCL, "json": exampleQuotaJSON}, jsonFlag}.command(),
		quotaInspectCommand(),
		quotaListCommand(),
		quotaStatusCommand(),
		resourceDeleteCommand(),
		resourceListCommand(),
		scalingPolicyInfoCommand(),
		scalingPolicyListCommand(),
		serviceDeleteCommand(),
		serviceInfoCommand(),
		serviceListCommand(),
		statusCommand(),
		topCommand(),
		streamPEsCommand(),
		streamRegionCommand(),
		streamRoutesCommand(),
		streamStatusCommand(),
		varGetCommand(),
		example{"var init", "variable", "spec.nv", "db.nv.hcl", exampleVars, outFlag}.command(),
		varListCommand(),
		varLockCommand(),
		varPurgeCommand(),
		varPutCommand(),
		versionCommand(),
		superviseCommand(),
	}
}

// groups describes the groups of commands.
var groups = map[string]string{
	"alloc":                   "Inspect and control allocations",
	"config":                  "Check agent configuration",
	"deployment":              "Inspect and control deployments",
	"eval":                    "Inspect evaluations",
	"job":                     "Run, inspect and stop jobs",
	"job periodic":            "Launch periodic jobs",
	"job tag":                 "Name versions of a job",
	"acl":                     "Manage access control",
	"acl auth-method":         "Manage auth methods",
	"acl binding-rule":        "Manage binding rules",
	"acl policy":              "Manage policies",
	"acl role":                "Manage roles",
	"acl token":               "Manage tokens",
	"namespace":               "Manage namespaces",
	"quota":                   "Manage quotas",
	"node":                    "Inspect and manage nodes",
	"node identity":           "Inspect and renew the identities of nodes",
	"node intro":              "Let new nodes join",
	"node meta":               "Read and change the metadata of nodes",
	"node pool":               "Manage node pools",
	"operator":                "Maintain the cluster",
	"operator audit":          "Check audit logs",
	"operator autopilot":      "Inspect and configure the automatic management of servers",
	"operator gossip":         "Manage gossip between servers",
	"operator gossip keyring": "Manage the gossip encryption keys",
	"operator raft":           "Inspect and manage the Raft peers",
	"operator root":           "Manage the root keys",
	"operator root keyring":   "List, rotate and remove the root keys",
	"operator scheduler":      "Show and change the scheduler configuration",
	"operator snapshot":       "Save, restore and inspect snapshots of the cluster state",
	"resource":                "List and delete objects by owner and UID",
	"scaling":                 "Inspect how jobs can be scaled",
	"scaling policy":          "Inspect scaling policies",
	"server":                  "List servers and manage their membership",
	"service":                 "Inspect and delete service registrations",
	"stream":                  "Inspect and change stream jobs",
	"system":                  "Run cluster-wide maintenance",
	"volume":                  "Manage volumes",
	"volume claim":            "List and delete claims on volumes",
	"volume snapshot":         "Create, list and delete snapshots of CSI volumes",
	"plugin":                  "Show CSI plugins",
	"system reconcile":        "Repair what is derived from other data",
	"monitor":                 "Follow the log of an agent, or print it",
	"var":                     "Read and write variables",
	"tls":                     "Create and inspect TLS certificates",
	"tls ca":                  "Create and inspect certificate authorities",
	"tls cert":                "Create and inspect certificates",
}

// aliases are short and old spellings that Nomad accepts.
var aliases = []struct{ name, of string }{
	{"debug", "operator debug"}, {"init", "job init"}, {"inspect", "job inspect"}, {"plan", "job plan"}, {"run", "job run"}, {"start", "job start"}, {"stop", "job stop"}, {"validate", "job validate"}, {"logs", "alloc logs"}, {"fs", "alloc fs"}, {"exec", "alloc exec"}, {"action", "job action"},
	{"alloc-status", "alloc status"}, {"eval-status", "eval status"}, {"node-status", "node status"}, {"node-drain", "node drain"},
	{"server-members", "server members"}, {"server-join", "server join"}, {"server-force-leave", "server force-leave"}, {"client-config", "node config"},
}

// unsupportedCommands are the commands and groups of Nomad that Berth lacks.
// Adding a command removes its word here.
var unsupportedCommands = unsupportedList(map[string]string{
	"license":           "get inspect",
	"operator":          "utilization",
	"operator raft":     "migrate-backend",
	"operator snapshot": "agent",
	"queue":             "jobs",
	"recommendation":    "apply dismiss info list",
	"sentinel":          "apply delete list read",
	"setup":             "consul vault",
	"windows":           "service",
})

// Unsupported returns the commands of Nomad that Berth refuses by name, and
// those flags of the other commands, both in order: "job run -policy-override".
func Unsupported() (commandNames, flagNames []string) {
	commandNames = slices.Sorted(slices.Values(unsupportedCommands))
	for _, c := range commands() {
		if c.setup == nil || c.hidden {
			continue
		}
		f := newFlags()
		c.setup(f)
		f.VisitAll(func(g *flag.Flag) {
			if _, no := g.Value.(unsupported); no {
				flagNames = append(flagNames, c.name+" -"+g.Name)
			}
		})
	}
	slices.Sort(flagNames)
	return commandNames, flagNames
}

// unsupportedList joins each group with its words. A group that Berth lacks
// altogether is a name of its own.
func unsupportedList(missing map[string]string) (out []string) {
	for group, words := range missing {
		if _, partly := groups[group]; group != "" && !partly {
			out = append(out, group)
		}
		for _, w := range strings.Fields(words) {
			out = append(out, strings.TrimSpace(group+" "+w))
		}
	}
	return out
}
