package validate

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// Limits of a quota's own size.
const (
	maxQuotaDescription = 256 // bytes
	maxQuotaLimits      = 100 // regions, and node pools and devices in each
)

// quotaName is the form of a quota's name.
var quotaName = pattern.New(`^[A-Za-z0-9-]{1,128}$`)

// deviceName is the form of a device's name: type, vendor/type or
// vendor/type/name.
var deviceName = pattern.New(`^[^/\s]+(/[^/\s]+){0,2}$`)

// Quota returns every problem of the quota.
func Quota(q *berth.Quota) error {
	var ps berth.Problems
	if !quotaName.MatchString(q.Name) {
		ps.Addf("Name", "%.150q is not a valid name of a quota: want letters, digits and -, 1 to 128", q.Name)
	}
	if len(q.Description) > maxQuotaDescription || !utf8.ValidString(q.Description) {
		ps.Addf("Description", "is not text of at most %d bytes", maxQuotaDescription)
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
		case l.Region == "" || len(l.Region) > berth.MaxNameLen:
			ps.Addf(path+".Region", "must be the name of a region, got %q", berth.Clip(l.Region, 64))
		case seen[l.Region]:
			ps.Addf(path+".Region", "region %q has two limits", l.Region)
		}
		seen[l.Region] = true
		if r := l.RegionLimit; r != nil {
			checkQuotaResources(&ps, path+".RegionLimit", r, "")
			if l.VariablesLimit != nil && r.Storage != nil && r.Storage.VariablesMB != 0 {
				ps.Addf(path+".VariablesLimit", "must not be set together with RegionLimit.Storage.VariablesMB, which replaces it")
			}
		}
	}
	return ps.Err()
}

// checkQuotaResources adds the problems of the limits of a region or, if pool is not "", of
// a node pool in it.
func checkQuotaResources(ps *berth.Problems, path string, r *berth.QuotaResources, pool string) {
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
	checkQuotaDevices(ps, path, r.Devices)
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
			checkQuotaResources(ps, here, p, "in a pool")
		}
		names = append(names, p.NodePool)
	}
}

// checkQuotaDevices adds the problems of the limits of devices.
func checkQuotaDevices(ps *berth.Problems, path string, devices []*berth.RequestedDevice) {
	var names []string
	for i, d := range devices {
		here := path + ".Devices[" + strconv.Itoa(i) + "]"
		switch {
		case d == nil:
			ps.Addf(here, "is empty")
			continue
		case len(d.Name) > berth.MaxNameLen || !deviceName.MatchString(d.Name):
			ps.Addf(here+".Name", "must be type, vendor/type or vendor/type/name, got %q", berth.Clip(d.Name, 64))
		case slices.Contains(names, d.Name):
			ps.Addf(here+".Name", "device %q has two limits", d.Name)
		case len(d.Constraints)+len(d.Affinities) > 0:
			ps.Addf(here, "limits of devices have no constraints and no affinities")
		case d.Count > berth.MaxCount:
			ps.Addf(here+".Count", "must be at most %d, got %d", berth.MaxCount, d.Count)
		}
		names = append(names, d.Name)
	}
}
