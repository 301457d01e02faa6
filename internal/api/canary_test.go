package api_test

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// canaries are the names and IDs of what is in a namespace that a caller has no
// rights in, by the field of a path that names it; absent are such names of what
// does not exist.
type canaries struct {
	there, absent map[string]string
	ids           []string // that must not be seen
}

// inhabited returns a server with access control and with objects in a namespace
// of the canaries and in the caller's own, whose token has every right in its own
// namespace and may read nodes and agents.
func inhabited(t *testing.T) (*api.Server, *canaries) {
	job := func(space, name, volumes string) *berth.Job {
		return statetest.Job(t, fmt.Sprintf(`{"ID":"%[2]s-job","Namespace":%[1]q,"Meta":{"%[2]s":"%[2]s"},"TaskGroups":[{"Name":"%[2]s-group","Count":2,"Volumes":{%[3]s},
			"Scaling":{"Min":1,"Max":3,"Type":"horizontal","Enabled":true},
			"Update":{"MaxParallel":1,"HealthCheck":"task_states","HealthyDeadline":300000000000,"ProgressDeadline":600000000000},
			"Tasks":[{"Name":"%[2]s-task","Driver":"mock_driver","Env":{"K":"%[2]s-value"},"Resources":{"CPU":100,"MemoryMB":100}}]}]}`, space, name, volumes))
	}
	flow := statetest.Job(t, statetest.StreamText("canary-flow", 1, 100, ""))
	flow.Namespace = "canary-space"
	onHost := []berth.VolumeCapability{{AttachmentMode: berth.AttachFilesystem, AccessMode: berth.AccessNodeMultiWriter}}
	const rules = `
namespace "own" {
  policy       = "write"
  capabilities = ["alloc-exec", "alloc-node-exec", "alloc-lifecycle", "sentinel-override", "submit-job", "dispatch-job", "scale-job", "csi-write-volume"]
  variables {
    path "*" { capabilities = ["read", "write", "list", "destroy"] }
  }
}
node { policy = "read" }
agent { policy = "read" }`
	if _, err := acl.Parse(rules); err != nil {
		t.Fatal(err)
	}
	s, log := serve(t, func(c *api.Config) { c.ACL = true },
		&state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "own"}, {Name: "canary-space", Description: "canary-description"}, {Name: "canary-third"}}},
		&state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "mine", Rules: rules}, {Name: "canary-policy", Rules: `namespace "canary-space" { policy = "read" }`}}},
		&state.UpsertACLTokens{Tokens: []*berth.ACLToken{
			{AccessorID: "11111111-0000-4000-8000-000000000000", SecretHash: sha256.Sum256([]byte("secret")), Type: berth.TokenClient, Policies: []string{"mine"}},
			{AccessorID: "ca11a700-0000-4000-8000-000000000000", Name: "canary-token", SecretHash: sha256.Sum256([]byte("another")), Type: berth.TokenClient, Policies: []string{"canary-policy"}},
		}},
		statetest.AddNode(1, 4000, 4000),
		&state.PutHostVolume{Create: true, Now: 1, Volume: &berth.HostVolume{
			ID: "canary-volume", Name: "canary-data", Namespace: "canary-space", PluginID: "mkdir", NodeID: statetest.ID[berth.Node](1), HostPath: "/volumes/canary-volume", RequestedCapabilities: onHost,
		}},
		statetest.AddNode(1, 4000, 4000, func(n *berth.Node) {
			n.HostVolumes = map[string]berth.HostVolumeInfo{"canary-data": {ID: "canary-volume", Path: "/volumes/canary-volume"}}
		}),
		&state.PutCSIVolume{Now: 1, Volume: &berth.CSIVolume{
			ID: "canary-volume", Name: "canary-csi", Namespace: "canary-space", ExternalID: "canary-external", PluginID: "disk",
			RequestedCapabilities: []berth.VolumeCapability{{AttachmentMode: berth.AttachFilesystem, AccessMode: berth.AccessWriter}},
		}},
		statetest.Register(job("own", "mine", ""), 1),
		statetest.Register(job("canary-space", "canary", `"data":{"Name":"data","Type":"host","Source":"canary-data","Sticky":true,"AttachmentMode":"file-system","AccessMode":"`+berth.AccessNodeMultiWriter+`"}`), 2),
		statetest.Register(job("canary-third", "canary-third", ""), 3),
		statetest.Register(flow, 4),
	)
	for e := range log.Store.Snapshot().OpenEvals(berth.EvalPending) {
		log.Must(t, schedule.Decide(log.Store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
	}
	submit(t, log, berth.JobKey{Namespace: "canary-space", ID: "canary-flow"})
	c := &canaries{
		there: map[string]string{"JobID": "canary-job", "ServiceName": "canary-service", "VarPath": "canary/variable", "TagName": "canary-tag", "NamespaceName": "canary-space", "Name": "canary-space",
			"PolicyName": "canary-policy", "ServiceID": "canary-registration", "VolumeID": "canary-volume", "Accessor": "ca11a700-0000-4000-8000-000000000000", "AccessorID": "ca11a700-0000-4000-8000-000000000000"},
		absent: map[string]string{"JobID": "absent-job", "ServiceName": "absent-service", "VarPath": "absent/variable", "TagName": "absent-tag", "NamespaceName": "absent-space", "Name": "absent-space",
			"PolicyName": "absent-policy", "ServiceID": "absent-registration", "VolumeID": "absent-volume",
			"UID": "p-00000000000fffff-00", "PE": "p-00000000000fffff-00", "Export": "x-00000000000fffff-00", "Import": "i-00000000000fffff-00"},
	}
	c.there["NodeID"] = statetest.ID[berth.Node](1).String() // which the caller may read
	c.absent["NodeID"] = c.there["NodeID"]
	snap := log.Store.Snapshot()
	k := berth.JobKey{Namespace: "canary-space", ID: "canary-job"}
	for a := range snap.AllocsOf(k) {
		c.there["AllocID"] = a.ID.String()
		c.ids = append(c.ids, a.ID.String())
		log.Must(t, &state.UpsertServices{Node: a.NodeID, Services: []*berth.ServiceRegistration{{
			ID: "canary-registration", ServiceName: "canary-service", Namespace: "canary-space", NodeID: a.NodeID, Datacenter: "dc1", JobID: "canary-job", AllocID: a.ID,
			Tags: []string{"canary-tag"}, Address: "10.0.0.1", Port: 80,
		}}})
	}
	for e := range snap.EvalsOf(k) {
		c.there["EvalID"] = e.ID.String()
		c.ids = append(c.ids, e.ID.String())
	}
	for d := range snap.DeploymentsOf(k) {
		c.there["DeploymentID"] = d.ID.String()
		c.ids = append(c.ids, d.ID.String())
	}
	for _, p := range snap.Job(k).Policies {
		c.there["PolicyID"] = p.ID
		c.ids = append(c.ids, p.ID)
	}
	for o := range snap.Resources() {
		uid := o.UID.Text(berth.KindLetter(o.Kind))
		c.there["UID"], c.ids = uid, append(c.ids, uid)
		if of := map[string]string{berth.KindPE: "PE", berth.KindExport: "Export", berth.KindImport: "Import"}[o.Kind]; of != "" {
			c.there[of] = uid
		}
	}
	for claim := range snap.HostVolumeClaims() {
		c.there["ClaimID"] = claim.ID
		c.ids = append(c.ids, claim.ID)
	}
	for _, f := range []string{"AllocID", "EvalID", "DeploymentID", "PolicyID", "ClaimID", "UID", "PE", "Export", "Import"} {
		if c.there[f] == "" {
			t.Fatalf("there is no canary for %s", f)
		}
	}
	key := berth.RootKeyID{1}
	log.Must(t, &state.AddRootKey{First: true, Key: &berth.RootKey{
		ID: key, State: berth.KeyActive, Signing: berth.SignEdDSA, Public: []byte("public"), Wrapped: berth.WrappedKey{Provider: "aead", Data: []byte("wrapped")}, CreateTime: 1,
	}})
	log.Must(t, &state.PutVariable{KeyID: key, Namespace: "canary-space", Path: "canary/variable", Data: []byte("sealed"), Size: 6, Now: 1})
	return s, c
}

// submit has a stream job's objects made, as the leader does.
func submit(t *testing.T, log *statetest.Log, k berth.JobKey) {
	t.Helper()
	row := log.Tip().StreamOf(k)
	plan, err := statetest.Planned(log.Tip(), row)
	if err != nil {
		t.Fatal(err)
	}
	planned := &state.PlanSubmission{Key: k, UID: row.UID, Plan: plan, Now: 1}
	planned.Stamp(log.Tip().Term)
	log.Must(t, planned)
	row = log.Tip().StreamOf(k)
	for _, kind := range berth.StreamKinds {
		made := &state.EnsureResources{Key: k, UID: row.UID, Generation: row.Generation, Kind: kind, Now: 1}
		for _, o := range row.Plan.Of(kind) {
			made.Names = append(made.Names, o.Name)
		}
		if made.Names != nil {
			made.Stamp(log.Tip().Term)
			log.Must(t, made)
		}
	}
}

// A caller learns nothing of a namespace in which it has no rights, whatever it
// asks: no answer holds a name or an ID from there that the request did not, and
// what is there cannot be told from what is not.
func TestForeignNamespacesCannotBeSeen(t *testing.T) {
	for _, i := range op.All() {
		if i.Path == "" || strings.HasPrefix(i.Name, "failpoint.") {
			continue
		}
		s, c := inhabited(t)
		if !s.Served()[i.Name] {
			continue
		}
		ask := func(space, query string, names map[string]string) *httptest.ResponseRecorder {
			path := field.ReplaceAllStringFunc(i.Path, func(f string) string {
				return cmp.Or(named(i, f, names), "6c2a1b34-0000-4000-8000-000000000000")
			})
			body := "{}"
			if i.Space == acl.JobSpace {
				body = fmt.Sprintf(`{"Job":{"ID":%q,"Namespace":%q}}`, names["JobID"], space)
			}
			method := i.Method
			if i.Bytes && i.IsRead() {
				method = http.MethodHead
			}
			r := httptest.NewRequest(method, path+"?namespace="+space+query, strings.NewReader(body))
			r.Header.Set(op.HeaderToken, "secret")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		for _, space := range []string{"own", "canary-space", "*"} {
			for _, query := range []string{"", "&prefix=" + c.ids[0][:4], "&prefix=canary", "&filter=Namespace+%3D%3D+%22canary-space%22", "&capability=read-job&topic=Job", "&resources=true&task_states=true&related=true&all=true"} {
				there, absent := ask(space, query, c.there), ask(space, query, c.absent)
				if seen := c.seen(there, i, space, query); seen != "" {
					t.Errorf("%s in %s%s shows %q: %d %s", i.Name, space, query, seen, there.Code, there.Body)
				}
				if a, b := c.alike(there), c.alike(absent); a != b && field.MatchString(i.Path) {
					t.Errorf("%s in %s%s tells what is there from what is not:\n%s\n%s", i.Name, space, query, a, b)
				}
			}
		}
	}
}

// named returns what a field of an operation's path is in a request, by the field's
// name: the job of an operation on stream jobs is one.
func named(i *op.Info, field string, names map[string]string) string {
	name := names[field[1:len(field)-1]]
	if field == "{JobID}" && strings.HasPrefix(i.Name, "stream.") {
		name = strings.Replace(name, "-job", "-flow", 1)
	}
	return name
}

// placeless are fields of paths that name what is in no namespace, or a part of what
// another field of the path names.
var placeless = map[string]bool{
	"PoolName": true, "PluginID": true, "KeyID": true, "MethodName": true, "RoleID": true, "RoleName": true, "RuleID": true, "QuotaName": true, "Region": true,
	"Profile": true,
}

// Whatever a path names has a canary, so that an operation on a new kind of object
// cannot be forgotten above.
func TestEveryFieldOfAPathHasACanary(t *testing.T) {
	_, c := inhabited(t)
	for _, i := range op.All() {
		for _, f := range field.FindAllString(i.Path, -1) {
			if f = f[1 : len(f)-1]; placeless[f] == (c.there[f] != "") {
				t.Errorf("%s: %s has the canary %q, and is in no namespace: %v", i.Name, f, c.there[f], placeless[f])
			}
		}
	}
}

// seen returns what an answer holds of a canary and the request did not.
func (c *canaries) seen(w *httptest.ResponseRecorder, i *op.Info, space, query string) string {
	body := w.Body.String()
	for _, f := range field.FindAllString(i.Path, -1) {
		body = strings.ReplaceAll(body, named(i, f, c.there), "")
	}
	if strings.Contains(query, "canary") || space == "canary-space" || i.Space == acl.JobSpace {
		for _, said := range []string{"canary-space", "canary-job", `"canary"`} {
			body = strings.ReplaceAll(body, said, "")
		}
	}
	for _, word := range append([]string{"canary", "ca11a700"}, c.ids...) {
		if strings.Contains(body, word) {
			return word
		}
	}
	return ""
}

// anID matches an ID of any kind.
var anID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[a-z]-[0-9a-f]{16}-[0-9a-f]{2}`)

// alike returns an answer without the names and IDs of the request.
func (c *canaries) alike(w *httptest.ResponseRecorder) string {
	b, _ := io.ReadAll(w.Result().Body)
	return fmt.Sprint(w.Code, " ", anID.ReplaceAllString(strings.ReplaceAll(string(b), "canary", "absent"), "ID"))
}
