package jobspec

import (
	"regexp"
	"strconv"
	"strings"

	"berth"
	"berth/internal/decode"
)

// ParseHostVolume parses the specification of a dynamic host volume, in the forms
// of [ParseNamespace]; JSON may have the names of HCL as well. Capacities may
// have units.
func ParseHostVolume(file File) (*berth.HostVolume, error) {
	if !isJSON(file.Text) { // ${attr.x} is for the servers, as there are no variables
		file.Text = interpolation.ReplaceAll(file.Text, []byte("$1$$$${"))
	}
	v, err := parseSettings[volumeFile](file, "volume", volumeSettings)
	if err != nil {
		return nil, err
	}
	switch v.Type {
	case berth.VolumeHost, "":
	case berth.VolumeCSI:
		return nil, berth.Errorf(berth.Invalid, "%s: volume.type: %q volumes are not supported: must be host", file.Name, v.Type)
	default:
		return nil, berth.Errorf(berth.Invalid, "%s: volume.type: must be host, got %q", file.Name, berth.Clip(v.Type, 64))
	}
	return &v.HostVolume, nil
}

// interpolation matches the beginning of one in HCL.
var interpolation = regexp.MustCompile(`(^|[^$])\$\{`)

// volumeFile is what a specification holds.
type volumeFile struct {
	Type string
	berth.HostVolume
}

// volumeSettings are those of a volume.
var volumeSettings = settings{
	texts: map[string]string{
		"type": "Type", "id": "ID", "name": "Name", "namespace": "Namespace", "plugin_id": "PluginID", "node_id": "NodeID", "node_pool": "NodePool",
		"host_path": "HostPath",
	},
	sizes:  map[string]string{"capacity_min": "RequestedCapacityMinBytes", "capacity_max": "RequestedCapacityMaxBytes", "capacity": "CapacityBytes"},
	spells: true,
	blocks: map[string]settings{
		"constraint": {name: "Constraints", many: true, texts: map[string]string{"attribute": "LTarget", "value": "RTarget", "operator": "Operand"}},
		"capability": {name: "RequestedCapabilities", many: true, texts: map[string]string{"access_mode": "AccessMode", "attachment_mode": "AttachmentMode"}},
		"parameters": {name: "Parameters", free: true},
	},
}

// units are those of sizes, in bytes.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// sizeOf returns a size in bytes, which is a number or text such as 10GiB; v
// itself if it is neither.
func sizeOf(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	number, factor := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if len(number) > len(u.name) && strings.EqualFold(number[len(number)-len(u.name):], u.name) {
			number, factor = strings.TrimSpace(number[:len(number)-len(u.name)]), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f*float64(factor) >= 1<<62 {
		return v
	}
	return decode.Number(strconv.FormatInt(int64(f*float64(factor)), 10))
}

// respell returns a tree of JSON with the names of the API where it has those of
// HCL.
func respell(tree decode.Tree, s settings) decode.Tree {
	if s.free {
		return tree
	}
	out := decode.Tree{}
	for k, v := range tree {
		in, isBlock := s.blocks[k]
		switch {
		case s.texts[k] != "":
			out[s.texts[k]] = v
		case s.sizes[k] != "":
			out[s.sizes[k]] = sizeOf(v)
		case isBlock && in.many:
			list, ok := v.([]any)
			if !ok {
				list = []any{v}
			}
			all := make([]any, len(list))
			for i, x := range list {
				if all[i] = x; isTree(x) {
					all[i] = respell(x.(decode.Tree), in)
				}
			}
			out[in.name] = all
		case isBlock && isTree(v):
			out[in.name] = respell(v.(decode.Tree), in)
		default:
			out[k] = v
		}
	}
	return out
}

// isTree reports whether a value is an object.
func isTree(v any) bool {
	_, ok := v.(decode.Tree)
	return ok
}
