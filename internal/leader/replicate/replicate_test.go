package replicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	_ "berth/internal/onethread"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"

	"pgregory.net/rapid"
)

// there is the authoritative region: a state, and how it fails.
type there struct {
	store   *state.Store
	secrets map[string]string // of auth methods
	err     error             // instead of every answer
	size    int               // rows of a page
	reads   int               // rows that were fetched
	asked   atomic.Int64      // calls of List
}

func (r *there) List(ctx context.Context, in *op.ReplicaQuery) (*op.ReplicaPage, error) {
	r.asked.Add(1)
	if r.err != nil {
		return nil, r.err
	}
	index, _ := r.store.Snapshot().CopiesChanged()
	if in.MinQueryIndex != 0 && index <= in.MinQueryIndex {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t, _ := state.CopiedTable(in.Table)
	out := &op.ReplicaPage{Meta: op.Meta{Index: index}}
	for key, row := range t.All(r.store.Snapshot()) {
		if key <= in.After {
			continue
		}
		if out.More = len(out.Rows) == r.size; out.More {
			break
		}
		hash := t.Hash(row)
		out.Rows = append(out.Rows, op.ReplicaRow{Key: key, Hash: hash[:]})
	}
	return out, nil
}

func (r *there) Read(_ context.Context, in *op.ReplicaRef) (*op.ReplicaCopies, error) {
	if r.err != nil {
		return nil, r.err
	}
	t, _ := state.CopiedTable(in.Table)
	out := &op.ReplicaCopies{}
	for key, row := range t.All(r.store.Snapshot()) {
		if slices.Contains(in.Keys, key) {
			r.reads++
			out.Rows = append(out.Rows, op.ReplicaCopy{Data: t.Encode(row), Secret: r.secrets[key]})
		}
	}
	return out, nil
}

// regions are two regions, of which the second copies from the first.
type regions struct {
	from      *there
	fromLog   *statetest.Log
	here      *state.Store
	hereLog   *statetest.Log
	loop      *Loop
	sealed    map[string]string
	statesLog strings.Builder
}

func newRegions(t testing.TB) *regions {
	r := &regions{sealed: map[string]string{}}
	r.from = &there{size: 3, secrets: map[string]string{}}
	r.from.store, r.fromLog = statetest.New(t)
	r.here, r.hereLog = statetest.New(t)
	r.hereLog.Must(t, &state.AddRootKey{First: true, Key: rootKey()})
	r.loop = New(Config{
		Source: r.from, Store: r.here, Log: r.hereLog, Logger: slog.New(slog.NewTextHandler(&r.statesLog, nil)), Region: "b", Access: true,
		Seal: func(snap *state.Snapshot, method, secret string) (*state.SealedSecret, error) {
			r.sealed[method] = secret
			return &state.SealedSecret{KeyID: snap.ActiveKey().ID, Data: []byte(secret), Size: len(secret)}, nil
		},
	})
	return r
}

func rootKey() *berth.RootKey {
	return &berth.RootKey{ID: berth.RootKeyID{1}, State: berth.KeyActive, Signing: berth.SignEdDSA, Public: []byte("x"), CreateTime: 1, Wrapped: berth.WrappedKey{Provider: "aead", Data: []byte("x")}}
}

// round copies once.
func (r *regions) round(t testing.TB) Stats {
	t.Helper()
	r.loop.stats.Store(&Stats{Behind: r.loop.Stats().Behind}) // it does not wait for a change
	if err := r.loop.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.loop.Stats()
}

// rows are the rows of all tables that regions copy, as text.
func rows(s *state.Snapshot) string {
	var b strings.Builder
	for _, t := range state.CopiedTables {
		for key, row := range t.All(s) {
			fmt.Fprintf(&b, "%s %s %x\n", t.Name, key, t.Hash(row))
		}
	}
	return b.String()
}

func token(accessor, secret string, global bool, policies []string, roles []string) *berth.ACLToken {
	t := &berth.ACLToken{AccessorID: accessor, Type: berth.TokenClient, Global: global, Policies: policies, Roles: roles, CreateTime: 7}
	copy(t.SecretHash[:], secret)
	return t
}

// Whatever happens in the authoritative region and in this one, a round makes them
// equal in all that regions copy; local tokens stay as they are; and a round after
// it changes nothing.
func TestRegionsBecomeEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRegions(t)
		name := rapid.StringMatching("[a-d]")
		act := func(log *statetest.Log, local bool) {
			one, two := name.Draw(rt, "name"), name.Draw(rt, "other")
			var c state.Command
			switch rapid.IntRange(0, 12).Draw(rt, "act") {
			case 0, 1:
				c = &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: one, Description: two, Rules: `node { policy = "read" }`}}}
			case 2:
				c = &state.DeleteACLPolicies{Names: []string{one}}
			case 3, 4:
				c = &state.UpsertACLRoles{Roles: []*berth.ACLRole{{ID: "r" + one, Name: two, Policies: []berth.ACLLink{{Name: one}}}}}
			case 5:
				c = &state.DeleteACLRoles{IDs: []string{"r" + one}}
			case 6, 7:
				c = &state.UpsertACLTokens{Tokens: []*berth.ACLToken{token("t"+one, one+two, true, []string{one}, []string{"r" + two})}}
			case 8:
				c = &state.DeleteACLTokens{Accessors: []string{"t" + one}}
			case 9:
				c = &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: one, Description: two, Meta: map[string]string{"a": one, "b": two}}}}
			case 10:
				c = &state.DeleteNamespaces{Names: []string{one}}
			case 11:
				c = &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: one, Description: two}}}
			case 12:
				c = &state.DeleteNodePools{Names: []string{one}}
			}
			if _, err := log.Propose(t.Context(), c); err != nil && berth.KindOf(err) == "" {
				rt.Fatal(err)
			}
		}
		r.hereLog.Must(t, &state.UpsertACLTokens{Tokens: []*berth.ACLToken{{AccessorID: "local", SecretHash: [32]byte{9, 9}, Type: berth.TokenManagement, CreateTime: 1}}})
		local := r.here.Snapshot().ACLToken("local").ModifyIndex
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			for range rapid.IntRange(0, 25).Draw(rt, "acts there") {
				act(r.fromLog, false)
			}
			for range rapid.IntRange(0, 3).Draw(rt, "acts here") { // from before the regions were one
				act(r.hereLog, true)
			}
			for n := 0; r.round(t).Behind > 0; n++ {
				if n > 3 {
					rt.Fatalf("it does not come to an end:\n%s", r.statesLog.String())
				}
			}
			if want, got := rows(r.from.store.Snapshot()), rows(r.here.Snapshot()); got != want {
				rt.Fatalf("they differ:\n%s\n%s\n%s", want, got, r.statesLog.String())
			}
			before := r.here.Snapshot().Index
			if r.round(t); r.here.Snapshot().Index != before {
				rt.Fatal("a round without a change changed something")
			}
		}
		if got := r.here.Snapshot().ACLToken("local"); got == nil || got.ModifyIndex != local {
			rt.Fatalf("the local token is %+v", got)
		}
	})
}

// Only rows that differ are fetched, and hashes decide which: 50 policies are
// copied once, and then the one that changed.
func TestOnlyWhatDiffersIsFetched(t *testing.T) {
	r := newRegions(t)
	for i := range 50 {
		r.fromLog.Must(t, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: fmt.Sprintf("p%02d", i), Rules: `node { policy = "read" }`}}})
	}
	r.round(t)
	r.from.reads = 0
	r.fromLog.Must(t, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "p17", Rules: `agent { policy = "read" }`}}})
	if r.round(t); r.from.reads != 1 || !strings.Contains(r.here.Snapshot().ACLPolicy("p17").Rules, "agent") {
		t.Errorf("%d rows were fetched; p17 is %+v", r.from.reads, r.here.Snapshot().ACLPolicy("p17"))
	}
}

// A namespace that was deleted there and is in use here stays, is told once, and
// goes when nothing is left in it. Quotas come before the namespaces that name them.
func TestWhatIsInUseStays(t *testing.T) {
	r := newRegions(t)
	r.fromLog.Must(t, &state.UpsertQuotas{Region: "a", Quotas: []*berth.Quota{{Name: "q", Limits: []*berth.QuotaLimit{{Region: "b", RegionLimit: &berth.QuotaResources{CPU: new(100)}}}}}})
	r.fromLog.Must(t, &state.UpsertNamespaces{Namespaces: []*berth.Namespace{{Name: "team", Quota: "q"}}})
	if x := r.round(t); x.Behind != 0 || r.here.Snapshot().Quota("q").Region != "b" {
		t.Fatalf("%+v, %+v", x, r.here.Snapshot().Quota("q"))
	}
	r.hereLog.Must(t, &state.PutVariable{Namespace: "team", Path: "v", KeyID: berth.RootKeyID{1}, Data: []byte("x"), Size: 1, Now: 1})
	r.fromLog.Must(t, &state.DeleteNamespaces{Names: []string{"team"}}, &state.DeleteQuotas{Names: []string{"q"}})
	for range 3 {
		if x := r.round(t); x.Behind != 2 || r.here.Snapshot().Namespace("team") == nil {
			t.Fatalf("%+v, the namespace is %+v", x, r.here.Snapshot().Namespace("team"))
		}
	}
	if said := r.statesLog.String(); strings.Count(said, "was deleted there and stays here") != 2 || !strings.Contains(said, "it has the variable") && !strings.Contains(said, "variable") {
		t.Errorf("it said:\n%s", said)
	}
	r.hereLog.Must(t, &state.DeleteVariable{Namespace: "team", Path: "v"})
	if x := r.round(t); x.Behind != 0 || r.here.Snapshot().Namespace("team") != nil || r.here.Snapshot().Quota("q") != nil {
		t.Errorf("%+v, the namespace is %+v", x, r.here.Snapshot().Namespace("team"))
	}
}

// An auth method comes with its secret, which is encrypted with a key of this
// region, and with its binding rules; another one becomes the default.
func TestAuthMethodsAreCopied(t *testing.T) {
	r := newRegions(t)
	method := func(name string, isDefault bool) *berth.ACLAuthMethod {
		return &berth.ACLAuthMethod{
			Name: name, Type: berth.AuthJWT, TokenLocality: berth.LocalityGlobal, TokenNameFormat: "x", MaxTokenTTL: time.Hour, Default: isDefault,
			Config: &berth.AuthMethodConfig{JWKSURL: "https://id.example/keys", SigningAlgs: []string{"RS256"}},
		}
	}
	r.fromLog.Must(t, &state.UpsertAuthMethod{Method: method("one", true), Create: true, Now: 5})
	r.fromLog.Must(t, &state.UpsertBindingRule{Rule: &berth.ACLBindingRule{ID: "rule", AuthMethod: "one", BindType: berth.BindManagement}, Create: true, Now: 5})
	r.from.secrets["one"] = "client-secret"
	if x := r.round(t); x.Behind != 0 || r.sealed["one"] != "client-secret" || r.here.Snapshot().BindingRule("rule") == nil {
		t.Fatalf("%+v, sealed %v\n%s", x, r.sealed, r.statesLog.String())
	}
	r.fromLog.Must(t, &state.UpsertAuthMethod{Method: method("one", false), Now: 6})
	r.fromLog.Must(t, &state.UpsertAuthMethod{Method: method("two", true), Create: true, Now: 6})
	r.round(t)
	if want, got := rows(r.from.store.Snapshot()), rows(r.here.Snapshot()); got != want || !r.here.Snapshot().AuthMethod("two").Default {
		t.Errorf("they differ:\n%s\n%s\n%s", want, got, r.statesLog.String())
	}
}

// While the authoritative region does not answer, everything stays, the loop asks
// less and less often, and one line of the log says so; then it goes on.
func TestTheAuthoritativeRegionIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegions(t)
		r.fromLog.Must(t, &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "p", Rules: `node { policy = "read" }`}}})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.loop.Run(ctx) }()
		synctest.Wait()
		if r.here.Snapshot().ACLPolicy("p") == nil {
			t.Fatal("the policy was not copied")
		}
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.from.err = berth.Errorf(berth.Unavailable, "no live server of region %q is known", "a")
		ctx, end = context.WithCancel(t.Context())
		asked := r.from.asked.Load()
		go func() { done <- r.loop.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := r.from.asked.Load() - asked; n < 15 || n > 26 {
			t.Errorf("it asked %d times in 10 minutes", n)
		}
		x := r.loop.Stats()
		if r.here.Snapshot().ACLPolicy("p") == nil || x.Failed < 15 || time.Since(x.Contact) < 10*time.Minute {
			t.Errorf("%+v; the policy is %+v", x, r.here.Snapshot().ACLPolicy("p"))
		}
		if n := strings.Count(r.statesLog.String(), "cannot be copied from"); n != 1 {
			t.Errorf("it said so %d times", n)
		}
		end()
		<-done
	})
}
