package berth

import (
	"strings"
	"time"
)

// The providers of services. A job that names none means the default of the
// servers that it is registered with. Consul is not supported.
const (
	ServiceNomad  = "nomad"
	ServiceConsul = "consul"
)

// The address that a service announces.
const (
	AddressAuto = "auto" // the address given, else as host
	AddressHost = "host" // the node's address for the port

	// The address and port in the network of the group, if it has its own.
	AddressAlloc, AddressDriver = "alloc", "driver"
)

// What a check means for the health of its allocation. Checks have no warning
// status here, so the first two are the same.
const (
	OnUpdateRequireHealthy = "require_healthy"
	OnUpdateIgnoreWarnings = "ignore_warnings"
	OnUpdateIgnore         = "ignore" // nothing
)

// The types of checks.
const (
	CheckHTTP   = "http"
	CheckTCP    = "tcp"
	CheckGRPC   = "grpc"   // the health service of gRPC: grpc.health.v1.Health/Check
	CheckScript = "script" // a command that its task's driver runs beside the task
)

// Service is a name under which a group or task can be found, with checks.
type Service struct {
	Name              string
	Tags              []string
	CanaryTags        []string // instead of Tags, while the allocation is a canary
	EnableTagOverride bool
	PortLabel         string            `hcl:"port"` // a port of the group or task, or a number
	AddressMode       string            // one of the Address constants
	Address           string            // announced instead of the one that AddressMode finds
	Checks            []ServiceCheck    `hcl:"check"`
	CheckRestart      *CheckRestart     `hcl:"check_restart"` // of checks that have none
	Connect           map[string]any    `hcl:"connect"`       // Consul's service mesh, kept as it was written
	Meta              map[string]string `hcl:"meta"`
	CanaryMeta        map[string]string `hcl:"canary_meta"` // instead of Meta, while the allocation is a canary
	TaggedAddresses   map[string]string `hcl:"tagged_addresses"`
	TaskName          string            `hcl:"task"` // of a group's service: the task that it is of
	OnUpdate          string            // one of the OnUpdate constants; of checks that have none
	Identity          *WorkloadIdentity `hcl:"identity"`
	Weights           *ServiceWeights   `hcl:"weights"`
	Provider          string            // ServiceNomad; ServiceConsul is not supported
	Cluster           string
	Kind              string
}

// ServiceCheck is a health check of a service.
type ServiceCheck struct {
	Name                   string
	Type                   string // one of the Check constants
	Command                string // of a script check
	Args                   []string
	Path                   string // of an HTTP check
	Protocol               string // of an HTTP check: http or https
	PortLabel              string `hcl:"port"` // "": that of the service
	Expose                 bool
	AddressMode            string
	Advertise              string
	Interval               time.Duration // between two runs
	Timeout                time.Duration // after which a run has failed
	InitialStatus          string
	Notes                  string
	TLSServerName          string              `hcl:"tls_server_name"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify"` // accept any certificate
	Header                 map[string][]string `hcl:"header"`          // of an HTTP check
	Method                 string              // of an HTTP check; "" is GET
	CheckRestart           *CheckRestart       `hcl:"check_restart"`
	GRPCService            string              `hcl:"grpc_service"`
	GRPCUseTLS             bool                `hcl:"grpc_use_tls"`
	TaskName               string              `hcl:"task"` // in which a script runs
	SuccessBeforePassing   int                 // good results in a row until it passes; 0 is 1
	FailuresBeforeCritical int                 // bad results in a row until it fails; 0 is 1
	FailuresBeforeWarning  int
	Body                   string // of an HTTP check
	OnUpdate               string
}

// CheckRestart restarts a task whose check stays critical.
type CheckRestart struct {
	Limit          int           // failures in a row after which the task is restarted; 0: never
	Grace          time.Duration // how long after a start failures do not count
	IgnoreWarnings bool
}

// ServiceWeights are weights for DNS answers.
type ServiceWeights struct {
	Passing int
	Warning int
}

// ServiceRegistration is an instance of a service: an allocation that can be
// reached under the service's name. Its agent registers and removes it.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      NodeID
	Datacenter  string
	JobID       JobID
	AllocID     AllocID
	Tags        []string
	Address     string
	Port        int
	Meta        map[string]string `json:",omitempty"`
	Unhealthy   bool              `json:",omitempty"` // a check of it does not pass, or has not yet
	CreateIndex uint64
	ModifyIndex uint64
}

// ServiceKey is the name of a service.
type ServiceKey struct{ Namespace, Name string }

// Key returns the name of the registration's service.
func (r *ServiceRegistration) Key() ServiceKey { return ServiceKey{r.Namespace, r.ServiceName} }

// ServiceName reports whether a text is a valid service name.
func ServiceName(s string) bool {
	if s == "" || len(s) > MaxServiceNameLen || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
