package berth

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
