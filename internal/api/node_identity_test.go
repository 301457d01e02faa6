package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/internal/keyring"
	"berth/internal/msgpack"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// agentCall is a call of an agent.
type agentCall struct{ arg []byte }

func (c agentCall) Decode(in any) error    { return msgpack.Decode(c.arg, in) }
func (agentCall) Remote() string           { return "10.0.0.9:999" }
func (agentCall) Progress() *atomic.Uint64 { return new(atomic.Uint64) }

// call makes a call of an agent and returns its answer.
func call[In, Out any](t testing.TB, s *api.Server, o op.Op[In, Out], in In) (*Out, error) {
	t.Helper()
	out, err := calls(t, s, o.Info, in)
	if err != nil {
		return nil, err
	}
	return out.(*Out), nil
}

// calls is call for an operation whose types are not known.
func calls(t testing.TB, s *api.Server, info *op.Info, in any) (any, error) {
	t.Helper()
	arg, err := msgpack.Append(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	return s.RPC()[info.RPC](context.Background(), agentCall{arg})
}

// withKeys returns a server that can sign.
func withKeys(t testing.TB, change func(*api.Config), cmds ...state.Command) (*api.Server, *statetest.Log) {
	ring := keyring.New("", keyring.NewFiles(t.TempDir()))
	s, log := serve(t, func(c *api.Config) {
		c.Keyring = ring
		if change != nil {
			change(c)
		}
	}, cmds...)
	k, err := ring.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.CreateTime = 1
	log.Must(t, &state.AddRootKey{Key: k, First: true})
	return s, log
}

// joined registers a node and returns its identity.
func joined(t testing.TB, s *api.Server, n *berth.Node, token string) (string, error) {
	t.Helper()
	out, err := call(t, s, op.NodeRegister, op.RegisterNode{Node: n, Write: op.Write{AuthToken: token}})
	if err != nil {
		return "", err
	}
	if out.SignedIdentity == nil {
		t.Fatal("the answer has no identity")
	}
	return *out.SignedIdentity, nil
}

// newNode is a node that no server knows yet.
func newNode(i int, change ...func(*berth.Node)) *berth.Node {
	n := statetest.Node(i, 4000, 4000, change...)
	n.SecretID, n.Status = fmt.Sprint("secret-", i), berth.NodeInit
	return n
}

// Node A shows its identity, and its secret, with every call that agents make, for
// node B and what was placed there: it is denied, and nothing changes. A call that
// is added without a line here fails.
func TestANodeTouchesOnlyWhatIsItsOwn(t *testing.T) {
	s, log := withKeys(t, nil)
	a, b := newNode(1), newNode(2)
	ofA, err := joined(t, s, a, "")
	if err != nil {
		t.Fatal(err)
	}
	ofB, err := joined(t, s, b, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*berth.Node{a, b} {
		if _, err := call(t, s, op.NodeBeat, op.BeatNode{NodeID: n.ID, Status: berth.NodeReady, SecretID: n.SecretID}); err != nil {
			t.Fatal(err)
		}
	}
	job := statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":2,"EphemeralDisk":{"SizeMB":300,"Sticky":true,"Migrate":true},"Constraints":[{"Operand":"distinct_hosts"}],"Tasks":[{"Name":"app","Driver":"mock_driver","Identities":[{"Name":"x","Audience":["y"],"Env":true}]}]}]}`)
	log.Must(t, statetest.Register(job, 1))
	for e := range log.Store.Snapshot().OpenEvals(berth.EvalPending) {
		log.Must(t, schedule.Decide(log.Store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
	}
	var placed *berth.Alloc
	for x := range log.Store.Snapshot().AllocsOn(b.ID) {
		placed = x
	}
	if placed == nil {
		t.Fatal("nothing was placed on node B")
	}
	register := &state.UpsertServices{Node: b.ID, Services: []*berth.ServiceRegistration{{
		ID: "reg", ServiceName: "web", Namespace: "default", NodeID: b.ID, Datacenter: "dc1", JobID: "web", AllocID: placed.ID, Address: "10.0.0.1", Port: 80,
	}}}
	log.Must(t, register)
	// inputs returns the call for a node, with a token, about the allocation on B.
	inputs := func(node *berth.Node, token string) map[string]any {
		q, w := op.Query{AuthToken: token}, op.Write{AuthToken: token}
		as := *b
		as.ID, as.SecretID = node.ID, a.SecretID
		if node == b && token == ofB {
			as.SecretID = b.SecretID
		}
		return map[string]any{
			"node.register":   &op.RegisterNode{Node: &as, Write: w},
			"node.drain-self": &op.DrainSelf{NodeID: node.ID, Spec: &berth.DrainSpec{}, Write: w},
			"node.beat":       &op.BeatNode{NodeID: node.ID, Status: berth.NodeReady, Write: w},
			"node.pull":       &op.NodeAllocIndexes{NodeID: node.ID, Query: q},
			"alloc.fetch":     &op.GetAllocs{AllocIDs: []string{placed.ID.String()}, Query: q},
			"alloc.report":    &op.ReportAllocs{Alloc: []*op.AllocReport{{ID: placed.ID, NodeID: node.ID, Namespace: "default", JobID: "web", ClientStatus: berth.ClientRunning}}, Write: w},
			"node.events":     &op.EmitEvents{NodeEvents: map[string][]*berth.NodeEvent{node.ID.String(): {{Message: "x"}}}, Write: w},
			"alloc.disk":      &op.ReadDisk{NodeID: node.ID, AllocID: placed.ID, Part: op.DiskPart{List: true, Path: "alloc/data"}, Query: q},
			"identity.sign":   &op.SignIdentities{NodeID: node.ID, Identities: []op.IdentityRequest{{AllocID: placed.ID, TaskName: "app"}}, Query: q},
			"service.upsert": &op.UpsertServices{Services: []*berth.ServiceRegistration{{
				ID: "reg", ServiceName: "web", Namespace: "default", NodeID: node.ID, Datacenter: "dc1", JobID: "web", AllocID: placed.ID, Address: "10.6.6.6", Port: 80,
			}}, Write: w},
			"service.resolve":  &op.ServiceLookup{NodeID: node.ID, Space: "default", ServiceName: "web", Query: q},
			"template.values":  &op.WantsQuery{NodeID: node.ID, AllocID: placed.ID, TaskName: "app", Query: q},
			"template.turn":    &op.TellTurn{NodeID: node.ID, AllocID: placed.ID, State: op.TurnWanted, Query: q},
			"csi_volume.claim": &op.ReadClaim{NodeID: node.ID, AllocID: placed.ID, VolumeID: "data", Query: q},
			"service.remove":   &op.DeleteServiceByID{ID: "reg", Write: w},
			"stream.pull":      &op.ConnectivityQuery{NodeID: node.ID, AllocID: placed.ID, Query: q},
			"stream.report":    &op.ReportConnectivity{NodeID: node.ID, AllocID: placed.ID, PE: "p-0000000000000001-00", State: "full", Write: w},
		}
	}
	// What node A may do with its own name: these calls name no allocation.
	own := map[string]bool{"node.register": true, "node.beat": true, "node.drain-self": true, "node.pull": true, "node.events": true, "service.resolve": true}
	for _, i := range op.All() {
		if i.Need != acl.Node || i.RPC == "" || i.Forwards {
			continue
		}
		t.Run(i.Name, func(t *testing.T) {
			for name, token := range map[string]string{"identity": ofA, "secret": a.SecretID, "nothing": "", "damaged identity": ofB[:len(ofB)-2]} {
				for _, node := range []*berth.Node{a, b} {
					if node == a && own[i.Name] {
						continue
					}
					in, ok := inputs(node, token)[i.Name]
					if !ok {
						t.Fatal("no call is made of this operation")
					}
					before := log.Store.Snapshot().Index
					_, err := calls(t, s, i, in)
					if k := berth.KindOf(err); k != berth.Denied && (node == b || k != berth.NotFound) {
						t.Errorf("by %s, named as node %s: %v", name, map[bool]string{true: "A", false: "B"}[node == a], err)
					}
					if after := log.Store.Snapshot().Index; after != before {
						t.Errorf("by %s: the state changed", name)
					}
				}
			}
			// The same call by node B itself is not refused for lack of rights.
			if i.Name == "service.remove" {
				defer func() { log.Must(t, register) }()
			}
			if _, err := calls(t, s, i, inputs(b, ofB)[i.Name]); berth.KindOf(err) == berth.Denied {
				t.Errorf("node B is refused: %v", err)
			}
		})
	}
}

// The identity of a node opens nothing of the HTTP API, with access control or
// without rights in it.
func TestANodeIsNoCallerOfTheHTTPAPI(t *testing.T) {
	s, _ := withKeys(t, func(c *api.Config) { c.ACL = true })
	jwt, err := joined(t, s, newNode(1), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{jwt, "secret-1"} {
		if w := askAs(s, secret, "GET", "/v1/jobs", ""); w.Code != http.StatusForbidden {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// Identities are renewed when two thirds of their time are over, or when the agent
// asks; one that is not valid is replaced, as the secret comes with it.
func TestIdentitiesOfNodesAreRenewed(t *testing.T) {
	s, log := withKeys(t, nil)
	n := newNode(1)
	first, err := joined(t, s, n, "")
	if err != nil {
		t.Fatal(err)
	}
	beat := func(token string, renew bool) *string {
		t.Helper()
		out, err := call(t, s, op.NodeBeat, op.BeatNode{NodeID: n.ID, Status: berth.NodeReady, SecretID: n.SecretID, RenewIdentity: renew, Write: op.Write{AuthToken: token}})
		if err != nil {
			t.Fatal(err)
		}
		return out.SignedIdentity
	}
	if got := beat(first, false); got != nil {
		t.Error("an identity that is new was renewed")
	}
	if got := beat(first, true); got == nil || *got == first {
		t.Error("the agent asked for another identity and got none")
	}
	if got := beat(first[:len(first)-4]+"AAAA", false); got == nil {
		t.Error("an identity that is not valid was not replaced")
	}
	if got := beat(n.SecretID, false); got != nil {
		t.Error("an agent that does not ask got an identity")
	}
	// A pool can have short identities: past two thirds, another one comes.
	log.Must(t, &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: "short", NodeIdentityTTL: time.Second}}})
	m := newNode(2, func(n *berth.Node) { n.NodePool = "short" })
	if first, err = joined(t, s, m, ""); err != nil {
		t.Fatal(err)
	}
	n = m
	claims := map[string]any{}
	decodeClaims(t, first, &claims)
	if claims["nomad_node_pool"] != "short" || claims["exp"].(float64)-claims["iat"].(float64) != 1 || claims["sub"] != op.ForNode("global", "short", m.ID) {
		t.Errorf("claims: %v", claims)
	}
}

func decodeClaims(t testing.TB, jwt string, to any) {
	t.Helper()
	if err := json.Unmarshal(partOf(t, jwt), to); err != nil {
		t.Fatal(err)
	}
}

// introduction makes an introduction token.
func introduction(t testing.TB, s http.Handler, body string) string {
	t.Helper()
	w := ask(s, "PUT", "/v1/acl/identity/client-introduction-token", body)
	var out op.Introduction
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.JWT == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return out.JWT
}

// With strict enforcement a new node needs a token that was made for it, that is
// valid, and that no other node has used.
func TestIntroduction(t *testing.T) {
	s, log := withKeys(t, func(c *api.Config) { c.Introductions.Enforcement = api.IntroduceStrict })
	log.Must(t, &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: "gpu"}}})
	named := func(name, pool string) func(*berth.Node) {
		return func(n *berth.Node) { n.Name, n.NodePool = name, pool }
	}
	any := introduction(t, s, `{}`)
	for i, x := range []struct {
		name  string
		token string
		node  *berth.Node
		code  berth.Code
	}{
		{"without a token", "", newNode(1), berth.CodeNotIntroduced},
		{"with its secret", "secret-2", newNode(2), berth.CodeNotIntroduced},
		{"for another pool", any, newNode(3, named("n3", "gpu")), berth.CodeNotIntroduced},
		{"for another name", introduction(t, s, `{"NodeName":"right"}`), newNode(4, named("wrong", "default")), berth.CodeNotIntroduced},
		{"damaged", any[:len(any)-3] + "AAA", newNode(5), berth.CodeNotIntroduced},
		{"for any node", any, newNode(6), ""},
		{"used up", any, newNode(7), berth.CodeNotIntroduced},
		{"for its name and pool", introduction(t, s, `{"NodeName":"right","NodePool":"gpu","TTL":"1m"}`), newNode(8, named("right", "gpu")), ""},
	} {
		got, err := joined(t, s, x.node, x.token)
		if berth.CodeOf(err) != x.code || (err == nil) != (x.code == "") {
			t.Errorf("%d, %s: %v", i, x.name, err)
		}
		if known := log.Store.Snapshot().Node(x.node.ID) != nil; known != (x.code == "") {
			t.Errorf("%s: the node is known: %v", x.name, known)
		}
		if x.name != "for any node" {
			continue
		}
		// It registers again after its answer was lost, and after it was collected.
		if _, err := joined(t, s, x.node, x.token); err != nil {
			t.Errorf("again: %v", err)
		}
		// The identity of one node introduces no other.
		if _, err := joined(t, s, newNode(9), got); berth.CodeOf(err) != berth.CodeNotIntroduced {
			t.Errorf("with the identity of another: %v", err)
		}
	}
	for _, bad := range []string{`{"TTL":"31m"}`, `{"TTL":"-1s"}`, `{"NodePool":"all"}`, `{"NodePool":"none"}`, `{"TTL":true}`} {
		if w := ask(s, "PUT", "/v1/acl/identity/client-introduction-token", bad); w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	// Otherwise nodes need none.
	for _, how := range []string{api.IntroduceNone, api.IntroduceWarn} {
		s, _ := withKeys(t, func(c *api.Config) { c.Introductions.Enforcement = how })
		if _, err := joined(t, s, newNode(1), "nonsense"); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	// A token that was used is no one-time token of a user.
	hash := sha256.Sum256([]byte(any))
	if x := log.Store.Snapshot().OneTimeToken(hash); x == nil || x.AccessorID != "" || x.Sealed != nil {
		t.Errorf("the token that was used: %+v", x)
	}
	if w := ask(s, "PUT", "/v1/acl/token/onetime/exchange", fmt.Sprintf(`{"OneTimeSecretID":%q}`, any)); w.Code < 400 || strings.Contains(w.Body.String(), "SecretID\":\"") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
