package op

import (
	"maps"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/decode"
)

// The contexts of a search: the kinds of object that it looks at, and those that
// are parts of jobs and nodes.
const (
	SearchAll         = "all"
	SearchAllocs      = "allocs"
	SearchDeployments = "deployment"
	SearchEvals       = "evals"
	SearchJobs        = "jobs"
	SearchNodes       = "nodes"
	SearchPools       = "node_pools"
	SearchNamespaces  = "namespaces"
	SearchQuotas      = "quotas"
	SearchPolicies    = "scaling_policy"
	SearchPlugins     = "plugins"
	SearchVariables   = "vars"
	SearchVolumes     = "volumes"
	SearchHostVolumes = "host_volumes"

	SearchGroups   = "groups"
	SearchServices = "services"
	SearchTasks    = "tasks"
	SearchImages   = "images"
	SearchCommands = "commands"
	SearchClasses  = "classes"
)

// MostMatches is how many matches of one context a prefix search returns.
const MostMatches = 20

// SearchQuery asks for the objects whose IDs, names or paths begin with a prefix.
// Prefix here is that of the body; the one of Query is not used.
type SearchQuery struct {
	Prefix  string
	Context string // a Search constant; "" is SearchAll
	Query
}

// Shape drops the options of reads from a body: Nomad's client sends them in the
// body as well as in the request line, where they count.
func (*SearchQuery) Shape(body decode.Tree) decode.Tree { return withoutOptions(body, "Prefix") }

// SearchAnswer is what a prefix search found.
type SearchAnswer struct {
	Matches     map[string][]string // IDs by context
	Truncations map[string]bool     // whether there are more
	Meta
}

// FuzzyQuery asks for the objects whose names hold a text, in any case.
type FuzzyQuery struct {
	Text    string
	Context string // a Search constant; "" is SearchAll
	Query
}

// Shape drops the options of reads from a body, like that of SearchQuery.
func (*FuzzyQuery) Shape(body decode.Tree) decode.Tree { return withoutOptions(body) }

// FuzzyMatch is one object that a fuzzy search found.
type FuzzyMatch struct {
	ID    string
	Scope []string `json:",omitempty"` // what the object is a part of, from its namespace down, or its ID
}

// FuzzyAnswer is what a fuzzy search found.
type FuzzyAnswer struct {
	Matches     map[string][]FuzzyMatch
	Truncations map[string]bool
	Meta
}

// withoutOptions returns a body without the names of Nomad's options of reads,
// but for region, namespace and those that are kept.
func withoutOptions(body decode.Tree, keep ...string) decode.Tree {
	out := maps.Clone(body)
	for name := range body {
		for _, option := range []string{"AllowStale", "WaitIndex", "WaitTime", "Prefix", "Params", "Headers", "AuthToken", "Filter", "PerPage", "NextToken", "Reverse"} {
			if strings.EqualFold(name, option) && !(len(keep) > 0 && strings.EqualFold(name, keep[0])) {
				delete(out, name)
			}
		}
	}
	return out
}

// StatusesQuery asks how jobs are: all that the caller may see, or those of a
// list.
type StatusesQuery struct {
	Jobs            []NamespacedJob
	IncludeChildren bool `query:"include_children"` // without a list: also those that other jobs launched
	Query
}

// NamespacedJob names a job.
type NamespacedJob struct {
	Namespace string
	ID        berth.JobID
}

// JobStanding is a job as an overview of jobs shows it.
type JobStanding struct {
	ID               berth.JobID
	Namespace        string
	Name             string
	Type             string
	NodePool         string
	Datacenters      []string
	Priority         int
	Version          uint64
	ParentID         berth.JobID
	Periodic         bool
	ParameterizedJob bool
	SubmitTime       int64
	CreateIndex      uint64
	ModifyIndex      uint64
	Status           string
	Stop             bool
	IsPack           bool // it has the metadata of a job that nomad-pack rendered
	GroupCountSum    int  // of the counts of its groups
	Allocs           []AllocStanding
	ChildStatuses    []string // one of each child; nil for a job that launches none
	LatestDeployment *DeploymentStanding
}

// AllocStanding is an allocation as an overview of jobs shows it.
type AllocStanding struct {
	ID               berth.AllocID
	Group            string
	ClientStatus     berth.ClientStatus
	DesiredStatus    berth.DesiredStatus
	NodeID           berth.NodeID
	DeploymentStatus DeploymentHealth
	JobVersion       uint64
	FollowupEvalID   berth.EvalID
	HasPausedTask    bool // no task here can be paused
}

// DeploymentHealth is an allocation's part in its deployment.
type DeploymentHealth struct {
	Canary  bool
	Healthy *bool // nil: not decided
}

// DeploymentStanding is the newest deployment of a job.
type DeploymentStanding struct {
	ID                berth.DeploymentID
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool // it has canaries that nobody promoted
}

// The searches, and the overview of jobs.
var (
	Search      = define[SearchQuery, SearchAnswer]("search.prefix", "GET /v1/search", "", acl.AnyToken, acl.NamedSpace, posted)
	FuzzySearch = define[FuzzyQuery, FuzzyAnswer]("search.fuzzy", "GET /v1/search/fuzzy", "", acl.AnyToken, acl.NamedSpace, posted)
	JobStatuses = define[StatusesQuery, []JobStanding]("job.statuses", "GET /v1/jobs/statuses", "", acl.ReadJob, acl.QuerySpace, posted, anyMethod)
)
