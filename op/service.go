package op

import (
	"berth"
	"berth/internal/acl"
)

// ServiceList is the services of one namespace.
type ServiceList struct {
	Namespace string
	Services  []ServiceStub
}

// ServiceStub is a service in a list, with the tags of all its instances.
type ServiceStub struct {
	ServiceName string
	Tags        []string
}

// ServiceQuery asks for the instances of a service.
type ServiceQuery struct {
	ServiceName string
	Choose      string `query:"choose"` // "2|key": return two of them, always the same for the same key
	Query
}

// JobServicesQuery asks for the services of a job.
type JobServicesQuery struct {
	JobID berth.JobID
	Query
}

// DeleteService asks for a service registration to be deleted.
type DeleteService struct {
	ServiceName string
	ServiceID   string
	Write
}

// The operations on services.
var (
	ListServices  = define[Query, []ServiceList]("service.list", "GET /v1/services", "", acl.ReadServices, acl.QuerySpace)
	ReadService   = define[ServiceQuery, []berth.ServiceRegistration]("service.read", "GET /v1/service/{ServiceName}", "", acl.ReadServices, acl.QuerySpace)
	RemoveService = define[DeleteService, WriteAnswer]("service.delete", "DELETE /v1/service/{ServiceName}/{ServiceID}", "", acl.SubmitJob, acl.QuerySpace)
	AllocServices = define[AllocRef, []berth.ServiceRegistration]("alloc.services", "GET /v1/allocation/{AllocID}/services", "", acl.ReadJob, acl.AllocSpace)
	JobServices   = define[JobServicesQuery, []berth.ServiceRegistration]("job.services", "GET /v1/job/{JobID}/services", "", acl.ReadJob, acl.QuerySpace)
	AllocChecks   = define[AllocRef, map[string]CheckStatus]("alloc.checks", "GET /v1/client/allocation/{AllocID}/checks", "", acl.ReadJob, acl.AllocSpace, local)
)

// Checks holds the last results of an allocation's checks, by ID, as an agent
// answers a server.
type Checks struct{ Results map[string]CheckStatus }

// CheckStatus is the last result of a service check.
type CheckStatus struct {
	ID         string
	Check      string // name of the check
	Group      string // job.group[index]
	Mode       string // healthiness, or readiness if health does not depend on the check
	Output     string
	Service    string
	Task       string
	Status     string // success, failure or pending
	StatusCode int    // HTTP status
	Timestamp  int64  // s since 1970
}

// The rest of this file is what agents call.

// UpsertServices creates or updates registrations of services.
type UpsertServices struct {
	Services []*berth.ServiceRegistration
	Write
}

// DeleteServiceByID deletes a registration.
type DeleteServiceByID struct {
	ID string
	Write
}

// ServiceLookup asks for the instances of a service, for the DNS of a node.
// Upper and lower case of the names do not count.
type ServiceLookup struct {
	NodeID      berth.NodeID
	Space       string // the namespace
	ServiceName string
	Query
}

// ServiceInstances are the instances of a service.
type ServiceInstances struct {
	Services []berth.ServiceRegistration
	Meta
}

// The operations on services that only agents use.
var (
	ServiceResolve = define[ServiceLookup, ServiceInstances]("service.resolve", "", "ServiceRegistration.Resolve", acl.Node, acl.NoSpace)
	ServiceUpsert  = define[UpsertServices, WriteAnswer]("service.upsert", "", "ServiceRegistration.Upsert", acl.Node, acl.NoSpace, write)
	ServiceRemove  = define[DeleteServiceByID, WriteAnswer]("service.remove", "", "ServiceRegistration.DeleteByID", acl.Node, acl.NoSpace, write)
)
