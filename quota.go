package berth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Quota limits what the namespaces that name it may use together.
type Quota struct {
	Name        string
	Description string
	Limits      []*QuotaLimit
	Region      string `json:"-"` // the region that enforces it; limits of other regions are only kept
	CreateIndex uint64
	ModifyIndex uint64
}

// QuotaLimit holds the limits of one region.
type QuotaLimit struct {
	Region         string
	RegionLimit    *QuotaResources // nil: no limit
	VariablesLimit *int            // MiB; the older form of RegionLimit.Storage.VariablesMB
	Hash           []byte          // SHA-256 of the limits, which names them in [QuotaUsage]; set by the server
}

// QuotaResources are limits. In each, 0 and nil mean no limit, and a negative
// number that nothing is allowed.
type QuotaResources struct {
	CPU         *int               // MHz
	Cores       *int               // whole cores
	MemoryMB    *int               // MiB
	MemoryMaxMB *int               // MiB; a task without memory_max counts with its memory
	Devices     []*RequestedDevice // by vendor, type and name; without constraints and affinities
	NUMA        *NUMAResource      // not supported
	SecretsMB   *int               // not supported
	Storage     *QuotaStorage
	Allocations *int `json:",omitempty"` // that have not ended
	Jobs        *int `json:",omitempty"` // registered by users and not stopped

	// NodePools are further limits, for the jobs of one node pool each.
	NodePools []*QuotaResources `json:",omitempty"`
	NodePool  string            `json:",omitempty"` // in NodePools: the name
}

// QuotaStorage limits what is stored.
type QuotaStorage struct {
	VariablesMB   int // MiB of encrypted variables
	HostVolumesMB int // not supported
}

// QuotaUsage is what is used of a quota.
type QuotaUsage struct {
	Name        string
	Used        map[string]*QuotaLimit // by the limit's hash, in base64
	CreateIndex uint64
	ModifyIndex uint64
}

// Limits of a quota's own size.
const (
	MaxQuotaDescription = 256 // bytes
	maxQuotaLimits      = 100 // regions, and node pools and devices in each
)

// quotaName is the form of a quota's name.
var quotaName = regexp.MustCompile(`^[A-Za-z0-9-]{1,128}$`)

// deviceName is the form of a device's name: type, vendor/type or
// vendor/type/name.
var deviceName = regexp.MustCompile(`^[^/\s]+(/[^/\s]+){0,2}$`)

// Validate returns every problem of the quota.
func (q *Quota) Validate() error {
	var ps Problems
	if !quotaName.MatchString(q.Name) {
		ps.Addf("Name", "%.150q is not a valid name of a quota: want letters, digits and -, 1 to 128", q.Name)
	}
	if len(q.Description) > MaxQuotaDescription || !utf8.ValidString(q.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", MaxQuotaDescription)
	}
	if n := len(q.Limits); n > maxQuotaLimits {
		ps.Addf("Limits", "must be at most %d, got %d", maxQuotaLimits, n)
		return ps.Err()
	}
	seen := map[string]bool{}
	for i, l := range q.Limits {
		path := "Limits[" + strconv.Itoa(i) + "]"
		switch {
		case l == nil:
			ps.Addf(path, "is empty")
			continue
		case l.Region == "" || len(l.Region) > MaxNameLen:
			ps.Addf(path+".Region", "must be the name of a region, got %q", Clip(l.Region, 64))
		case seen[l.Region]:
			ps.Addf(path+".Region", "region %q has two limits", l.Region)
		}
		seen[l.Region] = true
		if r := l.RegionLimit; r != nil {
			r.validate(&ps, path+".RegionLimit", "")
			if l.VariablesLimit != nil && r.Storage != nil && r.Storage.VariablesMB != 0 {
				ps.Addf(path+".VariablesLimit", "must not be set together with RegionLimit.Storage.VariablesMB, which replaces it")
			}
		}
	}
	return ps.Err()
}

// validate adds the problems of the limits of a region or, if pool is not "", of
// a node pool in it.
func (r *QuotaResources) validate(ps *Problems, path, pool string) {
	if r.NUMA != nil && (r.NUMA.Affinity != "" || len(r.NUMA.Devices) > 0) {
		ps.Addf(path+".NUMA", "is not supported")
	}
	if r.SecretsMB != nil && *r.SecretsMB != 0 {
		ps.Addf(path+".SecretsMB", "is not supported")
	}
	if s := r.Storage; s != nil {
		if s.HostVolumesMB != 0 {
			ps.Addf(path+".Storage.HostVolumesMB", "is not supported")
		}
		if s.VariablesMB != 0 && pool != "" {
			ps.Addf(path+".Storage.VariablesMB", "is not supported in node pools: variables belong to none")
		}
	}
	if len(r.Devices) > maxQuotaLimits || len(r.NodePools) > maxQuotaLimits {
		ps.Addf(path, "must have at most %d devices and node pools", maxQuotaLimits)
		return
	}
	r.validateDevices(ps, path)
	switch {
	case pool != "" && len(r.NodePools) > 0:
		ps.Addf(path+".NodePools", "a node pool has no node pools")
	case pool == "" && r.NodePool != "":
		ps.Addf(path+".NodePool", "is only for the limits in NodePools")
	}
	var names []string
	for i, p := range r.NodePools {
		here := path + ".NodePools[" + strconv.Itoa(i) + "]"
		switch {
		case p == nil:
			ps.Addf(here, "is empty")
			continue
		case slices.Contains(names, p.NodePool):
			ps.Addf(here+".NodePool", "node pool %q has two limits", p.NodePool)
		case pool == "":
			checkPoolName(ps, here+".NodePool", p.NodePool)
			p.validate(ps, here, "in a pool")
		}
		names = append(names, p.NodePool)
	}
}

// validateDevices adds the problems of the limits of devices.
func (r *QuotaResources) validateDevices(ps *Problems, path string) {
	var names []string
	for i, d := range r.Devices {
		here := path + ".Devices[" + strconv.Itoa(i) + "]"
		switch {
		case d == nil:
			ps.Addf(here, "is empty")
			continue
		case len(d.Name) > MaxNameLen || !deviceName.MatchString(d.Name):
			ps.Addf(here+".Name", "must be type, vendor/type or vendor/type/name, got %q", Clip(d.Name, 64))
		case slices.Contains(names, d.Name):
			ps.Addf(here+".Name", "device %q has two limits", d.Name)
		case len(d.Constraints)+len(d.Affinities) > 0:
			ps.Addf(here, "limits of devices have no constraints and no affinities")
		case d.Count > MaxCount:
			ps.Addf(here+".Count", "must be at most %d, got %d", MaxCount, d.Count)
		}
		names = append(names, d.Name)
	}
}

// Sum returns the SHA-256 of the limits, by which usage refers to them.
func (l *QuotaLimit) Sum() []byte {
	c := *l
	c.Hash = nil
	text, err := json.Marshal(&c)
	if err != nil { // it is plain data
		panic(err)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// Key returns the name of the limits in [QuotaUsage].
func (l *QuotaLimit) Key() string { return base64.StdEncoding.EncodeToString(l.Hash) }

// Here returns the limits of the region that enforces the quota, nil if it has
// none there.
func (q *Quota) Here() *QuotaLimit {
	for _, l := range q.Limits {
		if l.Region == q.Region {
			return l
		}
	}
	return nil
}
