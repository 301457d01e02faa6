package berth

import "time"

// Service is a name under which a group or task can be found, with checks.
type Service struct {
	Name              string
	Tags              []string
	CanaryTags        []string
	EnableTagOverride bool
	PortLabel         string `hcl:"port"`
	AddressMode       string
	Address           string
	Checks            []ServiceCheck    `hcl:"check"`
	CheckRestart      *CheckRestart     `hcl:"check_restart"`
	Connect           map[string]any    `hcl:"connect"` // Consul's service mesh, kept as it was written
	Meta              map[string]string `hcl:"meta"`
	CanaryMeta        map[string]string `hcl:"canary_meta"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses"`
	TaskName          string            `hcl:"task"`
	OnUpdate          string
	Identity          *WorkloadIdentity `hcl:"identity"`
	Weights           *ServiceWeights   `hcl:"weights"`
	Provider          string
	Cluster           string
	Kind              string
}

// ServiceCheck tells whether a service works.
type ServiceCheck struct {
	Name                   string
	Type                   string
	Command                string
	Args                   []string
	Path                   string
	Protocol               string
	PortLabel              string `hcl:"port"`
	Expose                 bool
	AddressMode            string
	Advertise              string
	Interval               time.Duration
	Timeout                time.Duration
	InitialStatus          string
	Notes                  string
	TLSServerName          string              `hcl:"tls_server_name"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify"`
	Header                 map[string][]string `hcl:"header"`
	Method                 string
	CheckRestart           *CheckRestart `hcl:"check_restart"`
	GRPCService            string        `hcl:"grpc_service"`
	GRPCUseTLS             bool          `hcl:"grpc_use_tls"`
	TaskName               string        `hcl:"task"`
	SuccessBeforePassing   int
	FailuresBeforeCritical int
	FailuresBeforeWarning  int
	Body                   string
	OnUpdate               string
}

// CheckRestart restarts a task whose check stays critical.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}

// ServiceWeights are weights for DNS answers.
type ServiceWeights struct {
	Passing int
	Warning int
}
