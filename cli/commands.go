package cli

import "strings"

// commands is the tree. A new command is one file with one constructor, and
// one line here.
func commands() []*command {
	all := []*command{
		agentCommand(),
		jobExplainCommand(),
		jobPlanCommand(),
		jobRunCommand(),
		jobStatusCommand(),
		jobStopCommand(),
		jobValidateCommand(),
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
		allocLogsCommand(),
		evalDeleteCommand(),
		evalExplainCommand(),
		evalListCommand(),
		evalStatusCommand(),
		evalTraceCommand(),
		operatorSchedulerGetCommand(),
		operatorSchedulerSetCommand(),
		statusCommand(),
		systemGCCommand(),
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
	"alloc":              "Look at single instances of jobs",
	"eval":               "Look at what is being decided about jobs",
	"job":                "Run and stop jobs, and look at them",
	"node":               "Look at the machines that run jobs",
	"node pool":          "Group nodes, and look at their groups",
	"operator":           "Look after the cluster",
	"operator scheduler": "Look at and change how the cluster is scheduled",
}

// aliases are the short and the old spellings that Nomad accepts.
var aliases = []struct{ name, of string }{
	{"plan", "job plan"}, {"run", "job run"}, {"stop", "job stop"}, {"validate", "job validate"}, {"logs", "alloc logs"},
	{"alloc-status", "alloc status"}, {"eval-status", "eval status"}, {"node-status", "node status"},
}

// unbuiltCommands are those of Nomad's commands that this build refuses by
// name. Building a command removes its word.
var unbuiltCommands = unbuiltList(map[string]string{
	"":               "action agent agent-info check client-config debug exec fmt fs init inspect login node-drain server-force-leave server-join server-members start ui",
	"acl":            "auth-method binding-rule bootstrap policy role token",
	"alloc":          "checks exec fs pause restart signal stop",
	"config":         "validate",
	"deployment":     "fail list pause promote resume status unblock",
	"job":            "action allocs deployments dispatch eval history init inspect periodic promote restart revert scale scaling-events start tag",
	"license":        "get inspect",
	"monitor":        "export",
	"namespace":      "apply delete inspect list status",
	"node":           "config drain identity intro meta",
	"operator":       "api autopilot client-state debug gossip metrics raft root snapshot utilization",
	"plugin":         "status",
	"quota":          "apply delete init inspect list status",
	"queue":          "jobs",
	"recommendation": "apply dismiss info list",
	"scaling":        "policy",
	"sentinel":       "apply delete list read",
	"server":         "force-leave join members",
	"service":        "delete info list",
	"setup":          "consul vault",
	"system":         "reconcile",
	"tls":            "ca cert",
	"var":            "get init list lock purge put",
	"volume":         "claim create delete deregister detach init register snapshot status",
})

func unbuiltList(groups map[string]string) (out []string) {
	for group, words := range groups {
		for _, w := range strings.Fields(words) {
			out = append(out, strings.TrimSpace(group+" "+w))
		}
	}
	return out
}
