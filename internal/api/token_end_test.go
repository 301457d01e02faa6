package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/events"
	"berth/internal/msgpack"
	"berth/internal/peer"
	"berth/internal/schedule"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// silent is the agent of every node: its tasks print nothing and never end, and
// neither do commands beside them.
type silent struct{}

// Agent implements api.Agents.
func (silent) Agent(berth.NodeID) op.Caller { return nil }

// Open implements api.Agents.
func (silent) Open(ctx context.Context, _ berth.NodeID, _ string, _ any) (op.Duplex, error) {
	return peer.Open(ctx, func(ctx context.Context, from op.Incoming) error {
		if err := from.Accept(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// watchedOver is a server in virtual time with access control, an allocation, and
// a token that may do everything in its namespace for an hour.
type watchedOver struct {
	*api.Server
	*statetest.Log
	alloc *berth.Alloc
}

const accessor = "11111111-0000-4000-8000-000000000000"

func watching(t *testing.T) *watchedOver {
	var buffer *events.Buffer
	s, log := serve(t, func(c *api.Config) {
		buffer = events.New(c.Store, events.Limits{})
		c.ACL, c.Agents, c.Events = true, silent{}, buffer
	}, policy(`namespace "default" { policy = "write" }`), &state.UpsertACLTokens{Tokens: []*berth.ACLToken{{
		AccessorID: accessor, SecretHash: sha256.Sum256([]byte("secret")), Type: berth.TokenClient, Policies: []string{"mine"},
		ExpirationTime: time.Now().Add(time.Hour).UnixNano(),
	}}}, statetest.AddNode(1, 4000, 4000), statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Tasks":[
		{"Name":"t","Driver":"mock_driver","Actions":[{"Name":"act","Command":"x"}],"Resources":{"CPU":100,"MemoryMB":100}}]}]}`), 1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- buffer.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	x := &watchedOver{s, log, nil}
	for e := range log.Store.Snapshot().OpenEvals(berth.EvalPending) {
		log.Must(t, schedule.Decide(log.Store.Snapshot(), e, 0, time.Unix(1000, 0)).Plan)
	}
	for a := range log.Store.Snapshot().AllocsOf(berth.JobKey{Namespace: "default", ID: "web"}) {
		x.alloc = a
	}
	if x.alloc == nil {
		t.Fatal("nothing was placed")
	}
	return x
}

// policy returns the command that sets the rules of the token of watching.
func policy(rules string) state.Command {
	return &state.UpsertACLPolicies{Policies: []*berth.ACLPolicy{{Name: "mine", Rules: rules}}}
}

// get makes a request for an answer that comes late or never, and returns when it
// is over.
func (x *watchedOver) get(ctx context.Context, path string) string {
	out := &sink{header: map[string][]string{}}
	defer func() { recover() }() // how the handler cuts a stream off
	r := httptest.NewRequest("GET", path, nil).WithContext(ctx)
	r.Header.Set(op.HeaderToken, "secret")
	x.ServeHTTP(out, r)
	return fmt.Sprint(out.code, " ", out.body.String())
}

// call opens a call of messages, and returns when it is over.
func (x *watchedOver) call(ctx context.Context, name string, in any) string {
	arg, err := msgpack.Append(nil, in)
	if err != nil {
		return err.Error()
	}
	c, err := peer.Open(ctx, func(ctx context.Context, from op.Incoming) error {
		return x.ForwardedDuplex(ctx, &op.Forwarded{Name: name, In: arg}, false, from)
	})
	if err == nil {
		_, err = c.Recv()
	}
	return fmt.Sprint(err)
}

// What a caller waits for, reads along or is connected to ends within a second
// after his token is deleted, expires or loses the right, and not before.
func TestAdvisory_C25_NothingOutlivesItsToken(t *testing.T) {
	words, _ := json.Marshal([]string{"sh"})
	q := op.Query{AuthToken: "secret"}
	kinds := map[string]func(x *watchedOver, ctx context.Context) string{
		"a query that waits": func(x *watchedOver, ctx context.Context) string { return x.get(ctx, "/v1/job/web?index=1000&wait=10m") },
		"a list that waits":  func(x *watchedOver, ctx context.Context) string { return x.get(ctx, "/v1/jobs?index=1000&wait=10m") },
		"a list of all namespaces": func(x *watchedOver, ctx context.Context) string {
			return x.get(ctx, "/v1/jobs?namespace=*&index=1000&wait=10m")
		},
		"events":                   func(x *watchedOver, ctx context.Context) string { return x.get(ctx, "/v1/event/stream") },
		"events of all namespaces": func(x *watchedOver, ctx context.Context) string { return x.get(ctx, "/v1/event/stream?namespace=*") },
		"logs": func(x *watchedOver, ctx context.Context) string {
			return x.get(ctx, "/v1/client/fs/logs/"+x.alloc.ID.String()+"?task=t&type=stdout&follow=true")
		},
		"a file that is followed": func(x *watchedOver, ctx context.Context) string {
			return x.get(ctx, "/v1/client/fs/stream/"+x.alloc.ID.String()+"?path=/f")
		},
		"a file that comes slowly": func(x *watchedOver, ctx context.Context) string {
			return x.get(ctx, "/v1/client/fs/cat/"+x.alloc.ID.String()+"?path=/f")
		},
		"a command beside a task": func(x *watchedOver, ctx context.Context) string {
			return x.call(ctx, op.Exec.Name, &op.ExecTask{AllocID: x.alloc.ID.String(), Task: "t", Command: string(words), Query: q})
		},
		"a connection to a port": func(x *watchedOver, ctx context.Context) string {
			return x.call(ctx, op.PortForward.Name, &op.ForwardPort{AllocID: x.alloc.ID.String(), Port: "80", Query: q})
		},
		"an action": func(x *watchedOver, ctx context.Context) string {
			return x.call(ctx, op.DoAction.Name, &op.RunAction{JobID: "web", AllocID: x.alloc.ID.String(), Action: "act", Query: q})
		},
	}
	ends := map[string]func(t *testing.T, x *watchedOver){
		"deleted":        func(t *testing.T, x *watchedOver) { x.Must(t, &state.DeleteACLTokens{Accessors: []string{accessor}}) },
		"expired":        func(t *testing.T, x *watchedOver) { time.Sleep(time.Hour - time.Minute) },
		"lost its right": func(t *testing.T, x *watchedOver) { x.Must(t, policy(`node { policy = "read" }`)) },
	}
	for kind, open := range kinds {
		for end, do := range ends {
			t.Run(kind+"/"+strings.ReplaceAll(end, " ", "-"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := watching(t)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					got := make(chan string, 1)
					go func() { got <- open(x, ctx) }()
					time.Sleep(time.Minute)
					synctest.Wait()
					select {
					case how := <-got:
						t.Fatal("ended while its token is valid: " + how)
					default:
					}
					do(t, x)
					time.Sleep(time.Second)
					synctest.Wait()
					select {
					case <-got:
					default:
						t.Error("still there a second later")
						cancel()
						<-got
					}
				})
			})
		}
	}
}
