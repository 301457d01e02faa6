package admit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/decode"
)

// The tests of this file are rows of docs/advisories.md.

// everyBlock is a job that uses most blocks there are.
const everyBlock = `{"ID":"j","Type":"service","Constraints":[{"LTarget":"${attr.kernel.name}","Operand":"=","RTarget":"linux"}],"Affinities":[{"LTarget":"${meta.x}","RTarget":"y","Weight":50}],
	"Spreads":[{"Attribute":"${node.datacenter}","Weight":50,"SpreadTarget":[{"Value":"dc1","Percent":70}]}],"Meta":{"a":"b"},
	"TaskGroups":[{"Name":"g","Count":2,"Networks":[{"Mode":"bridge","DNS":{"Servers":["10.0.0.1"]},"DynamicPorts":[{"Label":"http","To":80}],"ReservedPorts":[{"Label":"x","Value":9000}]}],
		"Services":[{"Name":"web","Provider":"nomad","PortLabel":"http","Checks":[{"Type":"http","Path":"/","Interval":"10s","Timeout":"2s","CheckRestart":{"Limit":3}}]}],
		"Scaling":{"Min":1,"Max":3,"Policy":{"a":1}},"Update":{"MaxParallel":1},"Migrate":{"MaxParallel":1},"RestartPolicy":{"Attempts":1},"ReschedulePolicy":{"Unlimited":true},
		"EphemeralDisk":{"SizeMB":300},"Disconnect":{"LostAfter":"1h"},"Volumes":{"v":{"Name":"v","Type":"host","Source":"data"}},
		"Tasks":[{"Name":"t","Driver":"docker","Config":{"image":"x","ports":["http"]},"Env":{"A":"B"},"Lifecycle":{"Hook":"prestart","Sidecar":true},
			"Identity":{"Env":true},"Identities":[{"Name":"aws","Audience":["a"],"TTL":"1h","ChangeMode":"signal","ChangeSignal":"SIGHUP"}],
			"Artifacts":[{"GetterSource":"https://example.com/x.tgz","RelativeDest":"local","GetterOptions":{"checksum":"md5:d41d8cd98f00b204e9800998ecf8427e"}}],
			"Templates":[{"EmbeddedTmpl":"x","DestPath":"local/x","ChangeMode":"restart","Wait":{"Min":"1s","Max":"2s"}}],"VolumeMounts":[{"Volume":"v","Destination":"/v"}],
			"Resources":{"Cores":2,"MemoryMB":100,"NUMA":{"Affinity":"prefer"}},"LogConfig":{"MaxFiles":3},"Actions":[{"Name":"a","Command":"x"}]}]}]}`

// paths lists every place in a tree, as the keys and indexes that lead there.
func paths(v any, at []any) (out [][]any) {
	if len(at) > 0 {
		out = append(out, slices.Clone(at))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, paths(v[k], append(slices.Clone(at), k))...)
		}
	case []any:
		for i := range v {
			out = append(out, paths(v[i], append(slices.Clone(at), i))...)
		}
	}
	return out
}

// without returns a tree in which what is at a path is missing, or is something else.
func without(v any, at []any, by any) any {
	switch x := v.(type) {
	case map[string]any:
		out, k := maps.Clone(x), at[0].(string)
		switch {
		case len(at) > 1:
			out[k] = without(x[k], at[1:], by)
		case by == gone:
			delete(out, k)
		default:
			out[k] = by
		}
		return out
	case []any:
		out, i := slices.Clone(x), at[0].(int)
		switch {
		case len(at) > 1:
			out[i] = without(x[i], at[1:], by)
		case by == gone:
			out = slices.Delete(out, i, i+1)
		default:
			out[i] = by
		}
		return out
	}
	return v
}

// gone stands for nothing in without.
var gone any = "a value that no job has: gone"

// C35: a job in which any one block is missing, null or of another type is decoded
// or refused with the names of what is wrong; it makes nothing fail otherwise.
func TestAdvisory_C35_IncompleteJobs(t *testing.T) {
	var whole any
	if err := json.Unmarshal([]byte(everyBlock), &whole); err != nil {
		t.Fatal(err)
	}
	mustDecode(t, everyBlock)
	tried := 0
	for _, at := range paths(whole, nil) {
		for _, by := range []any{gone, nil, map[string]any{}, []any{}, []any{nil}, "", "x", -1.0, true} {
			tried++
			text, err := json.Marshal(without(whole, at, by))
			if err != nil {
				t.Fatal(err)
			}
			tree, err := decode.ParseJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%v as %v: %v", at, by, p)
					}
				}()
				j, err := DecodeJob(tree, FromJSON)
				if err == nil {
					again(t, j)
				} else if berth.KindOf(err) != berth.Invalid {
					t.Errorf("%v as %v: kind %q of %v", at, by, berth.KindOf(err), err)
				}
			}()
		}
	}
	if tried < 1000 {
		t.Errorf("only %d jobs were tried", tried)
	}
}

// C24: an artifact's invalid source is refused here, or else by the agent.
func TestAdvisory_C24_SourcesOfArtifacts(t *testing.T) {
	for _, source := range []string{"", " ", ":", "::", "git::", "://", "http://", "http://[", "http://[::1", "http://%zz/", "http://a:b:c/", "?", "//", "\x7f", "git::::", "x::y::z", strings.Repeat("a", 70000), "é::é", "${", "${x", "}"} {
		quoted, _ := json.Marshal(source)
		tree, err := decode.ParseJSON([]byte(fmt.Sprintf(`{"ID":"j","TaskGroups":[{"Name":"g","Tasks":[{"Name":"t","Driver":"mock_driver","Artifacts":[{"GetterSource":%s}]}]}]}`, quoted)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeJob(tree, FromJSON); err != nil && berth.KindOf(err) != berth.Invalid {
			t.Errorf("%.40q: %v", source, err)
		}
	}
}
