package jobspec_test

import (
	"reflect"
	"strings"
	"testing"

	"berth"
	"berth/jobspec"
)

// A volume is the same from HCL, from JSON with those names, and from JSON with the
// names of the API.
func TestHostVolumes(t *testing.T) {
	want := &berth.HostVolume{
		Name: "data", Namespace: "team", PluginID: "mkdir", NodePool: "default", RequestedCapacityMinBytes: 10 << 30, RequestedCapacityMaxBytes: 20e9,
		Constraints:           []berth.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}},
		RequestedCapabilities: []berth.VolumeCapability{{AccessMode: "single-node-writer", AttachmentMode: "file-system"}},
		Parameters:            map[string]string{"mode": "0750"},
	}
	for name, text := range map[string]string{
		"v.hcl": `
type = "host"
name = "data"
namespace = "team"
plugin_id = "mkdir"
node_pool = "default"
capacity_min = "10GiB"
capacity_max = "20GB"
constraint {
  attribute = "${attr.kernel.name}"
  value = "linux"
  operator = "="
}
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
parameters {
  mode = "0750"
}
`,
		"v.json": `{"type": "host", "name": "data", "namespace": "team", "plugin_id": "mkdir", "node_pool": "default", "capacity_min": "10 GiB", "capacity_max": 20000000000,
			"constraint": [{"attribute": "${attr.kernel.name}", "value": "linux", "operator": "="}],
			"capability": {"access_mode": "single-node-writer", "attachment_mode": "file-system"}, "parameters": {"mode": "0750"}}`,
		"api.json": `{"Name": "data", "Namespace": "team", "PluginID": "mkdir", "NodePool": "default", "RequestedCapacityMinBytes": 10737418240, "RequestedCapacityMaxBytes": 20000000000,
			"Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}],
			"RequestedCapabilities": [{"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}], "Parameters": {"mode": "0750"}}`,
	} {
		got, err := jobspec.ParseHostVolume(jobspec.File{Name: name, Text: []byte(text)})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n%+v\n%+v", name, err, got, want)
		}
	}
	for text, want := range map[string]string{
		`type = "csi"`:            "not supported",
		`type = "nfs"`:            "must be host",
		`capacity_min = "much"`:   "must be an integer",
		`nmae = "x"`:              "unknown attribute",
		`capability "x" { }`:      "takes no label",
		`{"name": "x", "y": "z"}`: "y",
	} {
		_, err := jobspec.ParseHostVolume(jobspec.File{Name: "v", Text: []byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
