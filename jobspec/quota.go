package jobspec

import "berth"

// ParseQuota parses the specification of a quota, in the forms of
// [ParseNamespace].
func ParseQuota(file File) (*berth.Quota, error) {
	return parseSettings[berth.Quota](file, "quota", quotaSettings)
}

// amounts are the limits that regions and node pools have alike.
var amounts = map[string]string{
	"cpu": "CPU", "cores": "Cores", "memory": "MemoryMB", "memory_max": "MemoryMaxMB", "secrets": "SecretsMB", "allocations": "Allocations", "jobs": "Jobs",
}

// deviceLimit and storageLimit are blocks among them.
var (
	deviceLimit  = settings{name: "Devices", label: "Name", many: true, texts: map[string]string{"count": "Count"}}
	storageLimit = settings{name: "Storage", texts: map[string]string{"variables": "VariablesMB", "host_volumes": "HostVolumesMB"}}
)

// quotaSettings are those of a quota.
var quotaSettings = settings{
	texts: map[string]string{"name": "Name", "description": "Description"},
	blocks: map[string]settings{
		"limit": {
			name: "Limits", many: true, texts: map[string]string{"region": "Region", "variables_limit": "VariablesLimit"},
			blocks: map[string]settings{
				"region_limit": {name: "RegionLimit", texts: amounts, blocks: map[string]settings{
					"device": deviceLimit, "storage": storageLimit,
					"node_pool": {name: "NodePools", label: "NodePool", many: true, texts: amounts, blocks: map[string]settings{"device": deviceLimit, "storage": storageLimit}},
				}},
			},
		},
	},
}
