package op

import (
	"berth"
	"berth/internal/acl"
)

// QuotaRef names a quota.
type QuotaRef struct {
	QuotaName string
	Query
}

// WriteQuota asks for a quota to be created or replaced. Fields that are left
// out are reset.
type WriteQuota struct {
	QuotaName string // over HTTP: from the path, "" on /v1/quota
	berth.Quota
	Write
}

// DeleteQuota asks for a quota to be deleted.
type DeleteQuota struct {
	QuotaName string
	Write
}

// The operations on quotas.
var (
	ListQuotas      = define[Query, []*berth.Quota]("quota.list", "GET /v1/quotas", "", acl.QuotaRead, acl.NoSpace)
	ReadQuota       = define[QuotaRef, *berth.Quota]("quota.read", "GET /v1/quota/{QuotaName}", "", acl.QuotaRead, acl.NoSpace)
	CreateQuota     = define[WriteQuota, WriteAnswer]("quota.create", "PUT /v1/quota", "", acl.QuotaWrite, acl.NoSpace)
	UpdateQuota     = define[WriteQuota, WriteAnswer]("quota.update", "PUT /v1/quota/{QuotaName}", "", acl.QuotaWrite, acl.NoSpace)
	RemoveQuota     = define[DeleteQuota, WriteAnswer]("quota.delete", "DELETE /v1/quota/{QuotaName}", "", acl.QuotaWrite, acl.NoSpace)
	ListQuotaUsages = define[Query, []*berth.QuotaUsage]("quota.usages", "GET /v1/quota-usages", "", acl.QuotaRead, acl.NoSpace)
	ReadQuotaUsage  = define[QuotaRef, *berth.QuotaUsage]("quota.usage", "GET /v1/quota/usage/{QuotaName}", "", acl.QuotaRead, acl.NoSpace)
)
