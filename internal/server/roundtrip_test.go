package server_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/op"
)

// roundTrip says how to make an object, where it is read and where it is written.
type roundTrip struct {
	make         string // "PUT /v1/namespace {…}"; "" if it is there
	read         string // its path; {ID} is what the answer to make names
	inner, outer string // the field of the answer that is written; the field of the body that holds it
}

// roundTrips are the routes that are both read and written, by the name of the
// operation that writes. Braces in a path stand for the ID of the answer that
// made the object.
var roundTrips = map[string]roundTrip{
	"acl_policy.write": {make: `PUT /v1/acl/policy/p {"Name": "p", "Description": "d", "Rules": "node { policy = \"read\" }", "JobACL": {"Namespace": "default", "JobID": "web"}}`, read: "/v1/acl/policy/p"},
	"acl_role.update":  {make: `PUT /v1/acl/role {"Name": "r", "Description": "d", "Policies": [{"Name": "p"}]}`, read: "/v1/acl/role/{ID}"},
	"acl_token.update": {make: `PUT /v1/acl/token {"Name": "t", "Type": "client", "Policies": ["p"], "ExpirationTTL": 3600000000000}`, read: "/v1/acl/token/{AccessorID}"},
	"acl_auth_method.update": {
		make: `PUT /v1/acl/auth-method {"Name": "jwt", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": {"JWTValidationPubKeys": [` + quoted(publicKey) + `], "BoundAudiences": ["a"], "ClaimMappings": {"a": "b"}, "ListClaimMappings": {"c": "d"}}}`,
		read: "/v1/acl/auth-method/jwt",
	},
	"acl_binding_rule.update": {make: `PUT /v1/acl/binding-rule {"AuthMethod": "jwt", "BindType": "role", "BindName": "r", "Selector": "value.b == \"x\"", "Description": "d"}`, read: "/v1/acl/binding-rule/{ID}"},
	"namespace.update":        {make: `PUT /v1/namespace {"Name": "team", "Description": "d", "Meta": {"a": "b"}, "Quota": "q", "Capabilities": {"DisabledTaskDrivers": ["raw_exec"]}}`, read: "/v1/namespace/team"},
	"quota.update":            {make: `PUT /v1/quota {"Name": "q", "Description": "d", "Limits": [{"Region": "global", "RegionLimit": {"CPU": 100, "MemoryMB": 256}}]}`, read: "/v1/quota/q"},
	"node_pool.update":        {make: `PUT /v1/node/pools {"Name": "gpu", "Description": "d", "Meta": {"a": "b"}, "SchedulerConfiguration": {"SchedulerAlgorithm": "spread", "MemoryOversubscriptionEnabled": true}}`, read: "/v1/node/pool/gpu"},
	"variable.write":          {make: `PUT /v1/var/a/b {"Namespace": "default", "Path": "a/b", "Items": {"k": "v"}}`, read: "/v1/var/a/b"},
	"scheduler.write":         {read: "/v1/operator/scheduler/configuration", inner: "SchedulerConfig"},
	"autopilot.write":         {read: "/v1/operator/autopilot/configuration"},
	"job.update":              {make: `PUT /v1/jobs {"Job": ` + wholeJob + `}`, read: "/v1/job/web"},
	"job.register":            {read: "/v1/job/web", outer: "Job"},
	"node_pool.write":         {read: "/v1/node/pool/gpu"},
	"agent.set_worker_config": {read: "/v1/agent/schedulers/config"},
	"namespace.create":        {read: "/v1/namespace/team"},
	"quota.create":            {read: "/v1/quota/q"},
}

// notTheSame are the routes whose read answers something else than their write
// takes, or which only agents answer.
var notTheSame = map[string]string{
	"job.scale": "the read is the state of the groups, the write one change", "stream.region.set": "the same of a region", "snapshot.write": "bytes", "failpoint.here": "a tool of tests",
	"acl_role.create": "update takes the same", "acl_binding_rule.create": "update takes the same", "acl_token.create": "update takes the same", "acl_auth_method.create": "update takes the same",
	"csi_volume.register": "it needs a plugin: the real tests send back what they read", "csi_volume.register_old": "as csi_volume.register", "csi_snapshot.create": "the read asks the provider",
	"alloc.pause": "not supported without a node", "node.set_meta": "a write names changes, the read all metadata", "agent.set_servers": "the addresses are in the query",
}

const wholeJob = `{"ID": "web", "Name": "web", "Type": "service", "Datacenters": ["dc1"], "Meta": {"a": "b"}, "Update": {"MaxParallel": 1, "Canary": 1},
	"Constraints": [{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}], "Spreads": [{"Attribute": "${node.datacenter}", "Weight": 50}],
	"TaskGroups": [{"Name": "g", "Count": 0, "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http"}]}], "EphemeralDisk": {"SizeMB": 300},
	"Scaling": {"Min": 0, "Max": 3, "Enabled": true, "Policy": {"a": 1}},
	"Services": [{"Name": "web", "PortLabel": "http", "Provider": "nomad", "Checks": [{"Name": "c", "Type": "tcp", "Interval": 1000000000, "Timeout": 1000000000}]}],
	"Tasks": [{"Name": "app", "Driver": "raw_exec", "Config": {"command": "/bin/true"}, "Env": {"A": "b"}, "Templates": [{"EmbeddedTmpl": "x", "DestPath": "local/x"}],
	"Artifacts": [{"GetterSource": "https://example.com/x", "RelativeDest": "local/"}], "Resources": {"CPU": 10, "MemoryMB": 10}}]}]}`

func quoted(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Every object that the API answers is accepted unchanged by the operation that
// writes it, and is the same afterwards but for its indexes and times.
func TestObjectsAreTakenBack(t *testing.T) {
	r, secret := guarded(t)
	pairs := writesOfReads()
	for name := range pairs {
		if _, made := roundTrips[name]; !made && notTheSame[name] == "" {
			t.Errorf("%s has a route that is read and written: add it to roundTrips, or say why not", name)
		}
	}
	call := func(method, path, body string) (out map[string]any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, r.http+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(op.HeaderToken, secret)
		code, text := r.do(req)
		if code != http.StatusOK {
			t.Errorf("%s %s with %s: %d %s", method, path, body, code, text)
		}
		if text != "" && json.Unmarshal([]byte(text), &out) != nil && code == http.StatusOK && method == "GET" {
			t.Errorf("%s %s answers %s", method, path, text)
		}
		return out
	}
	ids := map[string]map[string]any{}
	making := []string{"acl_policy.write", "acl_role.update", "acl_token.update", "acl_auth_method.update", "acl_binding_rule.update", "quota.update", "namespace.update", "node_pool.update", "variable.write", "job.update"}
	for _, name := range making {
		parts := strings.SplitN(roundTrips[name].make, " ", 3)
		ids[name] = call(parts[0], parts[1], parts[2])
	}
	for _, name := range slices.Sorted(maps.Keys(roundTrips)) {
		c := roundTrips[name]
		if c.make != "" && !slices.Contains(making, name) {
			t.Errorf("%s is not made", name)
		}
		path := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(c.read, func(s string) string { id, _ := ids[name][s[1:len(s)-1]].(string); return id })
		object := call("GET", path, "")
		was := object
		if c.inner != "" {
			object, _ = object[c.inner].(map[string]any)
		}
		if len(object) == 0 {
			t.Errorf("%s: %s answers %v", name, path, was)
			continue
		}
		body := object
		if c.outer != "" {
			body = map[string]any{c.outer: object}
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		target := path
		if info := infoOf(name); !strings.Contains(info.Path, "{") {
			target = info.Path
		}
		call("PUT", target, string(text))
		if is := call("GET", path, ""); plain(is) != plain(was) {
			t.Errorf("%s: was\n%s\nis\n%s", name, plain(was), plain(is))
		}
	}
}

// writesOfReads returns the operations that write what the same route, or the
// route of an object that is created, reads.
func writesOfReads() map[string]bool {
	braces := regexp.MustCompile(`\{\w+\}`)
	reads := map[string]bool{}
	for _, i := range op.All() {
		if i.IsRead() && i.Path != "" && !i.Posted {
			reads[braces.ReplaceAllString(i.Path, "{}")] = true
		}
	}
	out := map[string]bool{}
	for _, i := range op.All() {
		path := braces.ReplaceAllString(i.Path, "{}")
		if i.Method == "PUT" && i.Path != "" && (reads[path] || reads[path+"/{}"]) {
			out[i.Name] = true
		}
	}
	return out
}

func infoOf(name string) *op.Info {
	for _, i := range op.All() {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// plain returns an object without what a write changes.
func plain(object map[string]any) string {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return regexp.MustCompile(`"(CreateIndex|ModifyIndex|Status|JobModifyIndex|ModifyTime|SubmitTime|Version|Hash)":("[^"]*"|\d+),?`).ReplaceAllString(string(text), "")
}

// do makes a request and returns status and text.
func (r *running) do(req *http.Request) (int, string) {
	r.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, resp.Body); err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}
