package admit

import (
	"berth"
	"berth/internal/limit"
)

// The limits on the size of a job. Beyond each, the job is refused, and the
// refusal names the block.
var (
	tasksLimit      = sizeLimit("tasks_per_group", "Tasks of a group", MaxTasks)
	conditionsLimit = sizeLimit("conditions_per_block", "Constraints, affinities, spread blocks or targets in one block of a job", MaxConditions)
	valueLimit      = limit.Declare(limit.Info{
		Name: "condition_length", Of: "Attribute or value of a constraint, affinity or spread block", Unit: limit.Bytes, Default: MaxValueLen, Beyond: "the job is refused (400)",
	})
	portsLimit    = sizeLimit("ports_per_group", "Ports of a group", MaxPorts)
	requestsLimit = sizeLimit("requests_per_block", "Device requests of a task, volumes of a group", maxRequests)
	cronsLimit    = sizeLimit("cron_expressions_per_job", "Cron expressions of a job", maxCrons)
	orderedLimit  = sizeLimit("ordered_groups_per_job", "Groups of a job in which groups wait for others", 100)
	awaitsLimit   = sizeLimit("depends_on_per_group", "Groups that a group names in depends_on", 16)
	onceLimit     = sizeLimit("once_per_job", "Groups of a job that run once in each version", 8)
	groupsLimit   = sizeLimit("groups_per_job", "Groups of a job", berth.MaxGroups)
	servicesLimit = sizeLimit("services_per_group", "Services of a group, those of its tasks included", MaxServices)
	tagsLimit     = sizeLimit("tags_per_service", "Tags of a service", berth.MaxServiceTags)
	checksLimit   = sizeLimit("checks_per_service", "Checks of a service", MaxServiceChecks)
	headersLimit  = sizeLimit("headers_per_check", "Headers of a check", maxCheckHeaders)
	entriesLimit  = sizeLimit("entries_per_map", "Entries of an env block or of a meta block", maxEntries)
	tokensLimit   = sizeLimit("names_per_placement", "Names in a placement of a stream group, tags or hosts of a pool", maxTokens)
)

// sizeLimit declares a limit on how many of something a job may have.
func sizeLimit(name, of string, most int64) *limit.Limit {
	return limit.Declare(limit.Info{Name: name, Of: of, Unit: limit.Count, Default: most, Beyond: "the job is refused (400)"})
}
