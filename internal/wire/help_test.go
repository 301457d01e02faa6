package wire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"go.uber.org/goleak"

	"berth"
	"berth/internal/admit"
	"berth/internal/eventually"
	"berth/op"
)

func TestMain(m *testing.M) { eventually.Main(m) }

// start serves s on a loopback port until the test ends, and checks that
// nothing of it is left running.
func start(t testing.TB, s *Server) string {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(eventually.Limit):
			t.Errorf("Serve does not return")
		}
		if err := eventually.NoLeaks(leaks); err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func dial(t testing.TB, addr string, handlers *Server) *Session {
	t.Helper()
	s, err := Dial(t.Context(), addr, handlers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// quiet is a config that logs to the test.
func quiet(t testing.TB) Config {
	return Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// beat answers as a heartbeat does.
func beat(_ context.Context, c *Call) (any, error) {
	var in op.BeatNode
	if err := c.Decode(&in); err != nil {
		return nil, err
	}
	return &op.NodeAnswer{HeartbeatTTL: 10 * time.Second, Meta: op.Meta{Index: 7, KnownLeader: true}}, nil
}

var aBeat = &op.BeatNode{NodeID: berth.NodeID{1, 2}, Status: berth.NodeReady, Write: op.Write{Region: "global", AuthToken: "secret"}}

// job returns a job as a user might have written it.
func job(t testing.TB) *berth.Job {
	j, err := admit.ParseJob([]byte(`{"ID": "web", "Meta": {"team": "red"}, "TaskGroups": [{
		"Name": "g", "Count": 50, "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
		"Tasks": [{"Name": "t", "Driver": "raw_exec", "Env": {"A": "b"}, "Config": {"command": "/bin/sh", "args": ["-c", "exec httpd -p $NOMAD_PORT_http"]}}]
	}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// fifty returns the answer to a node that asks for 50 allocations of a job.
func fifty(t testing.TB) *op.GetAllocsAnswer {
	a := &op.GetAllocsAnswer{Meta: op.Meta{Index: 9}}
	j := job(t)
	at := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	for i := range uint32(50) {
		a.Allocs = append(a.Allocs, &op.Alloc{
			ID: berth.AllocID{1, byte(i)}, EvalID: berth.EvalID{2}, NodeID: berth.NodeID{3}, NodeName: "n1",
			Namespace: "default", Name: berth.AllocName("web", "g", i), JobID: "web", Job: j, TaskGroup: "g",
			AllocatedResources: &op.AllocatedResources{
				Tasks:  map[string]*op.AllocatedTask{"t": {Cpu: op.AllocatedCPU{CpuShares: 100}, Memory: op.AllocatedMemory{MemoryMB: 300}}},
				Shared: op.AllocatedShared{DiskMB: 300, Ports: []berth.PortMapping{{Label: "http", Value: 20000 + int(i), HostIP: "10.0.0.1"}}},
			},
			TaskStates:  op.ShowTaskStates(map[string]*berth.TaskState{"t": {State: berth.TaskRunning, StartedAt: at, Events: []berth.TaskEvent{berth.NewTaskEvent(berth.EventStarted, at)}}}),
			UID:         fmt.Sprintf("a-%016x-%02x", 9, i),
			CreateIndex: 8, ModifyIndex: 9, AllocModifyIndex: 8, CreateTime: at.UnixNano(), ModifyTime: at.UnixNano(),
		})
	}
	return a
}

// textLog logs lines without a time.
func textLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// theirs is how others speak msgpack: in the old form, or with write in the
// new one.
func theirs(write bool) *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: write}
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	h.MapType = reflect.TypeFor[map[string]any]()
	h.RawToString = true
	h.SignedInteger = true
	h.TimeNotBuiltin = true
	return h
}
