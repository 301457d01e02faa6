package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth"
	"berth/internal/msgpack"
	"berth/op"
)

var update = flag.Bool("update", false, "write the golden files anew")

// exchanges are calls of agents and what they are answered, byte by byte.
func exchanges(t *testing.T) map[string]exchange {
	at := time.Date(2026, 11, 21, 5, 0, 0, 123456789, time.UTC)
	id := func(s string) (x [16]byte) {
		n, err := berth.ParseID[berth.Node](s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	node := berth.NodeID(id("10000000-aaaa-bbbb-cccc-000000000001"))
	alloc := berth.AllocID(id("20000000-aaaa-bbbb-cccc-000000000002"))
	eval := berth.EvalID(id("30000000-aaaa-bbbb-cccc-000000000003"))
	j := job(t)
	j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/true"} // one key each: maps have no order
	return map[string]exchange{
		"Node.Register": {
			"What an agent says of its node, and the TTL it is given.",
			&op.RegisterNode{
				Node: &berth.Node{
					ID: node, SecretID: "s3cr3t", Datacenter: "dc1", Name: "n1", HTTPAddr: "10.0.0.1:4646",
					Attributes: map[string]string{"kernel.name": "linux"},
					NodeResources: &berth.NodeResources{
						Cpu: berth.NodeCpuResources{CpuShares: 8000, TotalCpuCores: 2, ReservableCpuCores: []uint16{0, 1}},
						Processors: berth.NodeProcessors{Topology: &berth.Topology{
							Nodes: []uint8{0}, Distances: [][]uint8{{10}}, Cores: []berth.Core{{ID: 1, BaseSpeed: 4000}},
						}},
						Memory:         berth.NodeMemoryResources{MemoryMB: 65536},
						Disk:           berth.NodeDiskResources{DiskMB: 100000},
						MinDynamicPort: 20000, MaxDynamicPort: 32000,
					},
					Drivers: map[string]*berth.DriverInfo{"raw_exec": {Detected: true, Healthy: true, HealthDescription: "Healthy", UpdateTime: at}},
					Status:  berth.NodeInit,
				},
				Write: op.Write{Region: "global", AuthToken: "s3cr3t"},
			},
			&op.NodeAnswer{
				HeartbeatTTL: 12500 * time.Millisecond, EvalIDs: []berth.EvalID{eval}, NodeModifyIndex: 300, NumNodes: 1,
				LeaderRPCAddr: "10.0.0.9:4647", Servers: []op.ServerAddr{{RPCAdvertiseAddr: "10.0.0.9:4647", Datacenter: "dc1"}},
				SchedulingEligibility: berth.NodeEligible, Meta: op.Meta{Index: 300, KnownLeader: true},
			}, nil,
		},
		"Node.GetClientAllocs": {
			"A blocking query for which allocations the node has.",
			&op.NodeAllocIndexes{NodeID: node, SecretID: "s3cr3t", Query: op.Query{
				Region: "global", MinQueryIndex: 300, MaxQueryTime: 5 * time.Minute, AllowStale: true, AuthToken: "s3cr3t",
			}},
			&op.NodeAllocIndexesAnswer{Allocs: map[string]uint64{alloc.String(): 70000}, Meta: op.Meta{Index: 1 << 33, LastContact: 15 * time.Millisecond, KnownLeader: true}}, nil,
		},
		"Alloc.GetAllocs": {
			"The allocation as a whole, with its job.",
			&op.GetAllocs{AllocIDs: []string{alloc.String()}, Query: op.Query{Region: "global", MinQueryIndex: 70000, AllowStale: true, AuthToken: "s3cr3t"}},
			&op.GetAllocsAnswer{
				Allocs: []*op.Alloc{{
					ID: alloc, Namespace: "default", EvalID: eval, Name: "web.g[0]", NodeID: node, NodeName: "n1", JobID: "web", Job: j, TaskGroup: "g",
					AllocatedResources: &op.AllocatedResources{
						Tasks:  map[string]*op.AllocatedTask{"t": {Cpu: op.AllocatedCPU{CpuShares: 100}, Memory: op.AllocatedMemory{MemoryMB: 300}}},
						Shared: op.AllocatedShared{DiskMB: 300, Ports: []berth.PortMapping{{Label: "http", Value: 20000, HostIP: "10.0.0.1"}}},
					},
					Metrics:     &berth.AllocMetric{NodesEvaluated: 1, ScoreMetaData: []berth.NodeScore{{NodeID: node, NormScore: 0.5}}},
					CreateIndex: 70000, ModifyIndex: 70000, AllocModifyIndex: 70000, CreateTime: at.UnixNano(), ModifyTime: at.UnixNano(),
				}},
				Meta: op.Meta{Index: 70000, KnownLeader: true},
			}, nil,
		},
		"Node.UpdateAlloc": {
			"How an allocation fares, as its agent reports it.",
			&op.ReportAllocs{
				Alloc: []*op.AllocReport{{
					ID: alloc, NodeID: node, Namespace: "default", JobID: "web", ClientStatus: berth.ClientFailed, ClientDescription: "Failed tasks",
					TaskStates: map[string]*berth.TaskState{"t": {
						State: berth.TaskDead, Failed: true, Restarts: 2, StartedAt: at, FinishedAt: at.Add(time.Second),
						Events: []berth.TaskEvent{{Type: berth.EventTerminated, Time: at.UnixNano(), DisplayMessage: "Exit Code: 1", Details: map[string]string{"exit_code": "1"}}},
					}},
					DeploymentStatus: &berth.AllocDeploymentStatus{Healthy: new(false), Timestamp: at},
				}},
				Write: op.Write{Region: "global", AuthToken: "s3cr3t"},
			},
			&op.WriteAnswer{Meta: op.Meta{Index: 70001}}, nil,
		},
		"Node.UpdateStatus": {
			"A heartbeat that finds no leader.",
			&op.BeatNode{NodeID: node, Status: berth.NodeReady, UpdatedAt: at.Unix(), Write: op.Write{Region: "global", AuthToken: "s3cr3t"}},
			nil, berth.Errorf(berth.NoLeader, "No cluster leader"),
		},
	}
}

type exchange struct {
	about string
	in    any
	out   any
	err   error
}

// The golden files hold each message as hex, one token a line with what it
// is. A server answers the bytes of the question with those of the answer.
func TestTheBytesOfTheProtocol(t *testing.T) {
	for name, x := range exchanges(t) {
		t.Run(name, func(t *testing.T) {
			question, err := msgpack.Append(appendRequest([]byte{firstRPC}, name, 5), x.in)
			if err != nil {
				t.Fatal(err)
			}
			s := New(quiet(t))
			s.Handle(name, func(context.Context, *Call) (any, error) { return x.out, x.err })
			conn := connect(t, start(t, s))
			file := filepath.Join("testdata", strings.ToLower(strings.ReplaceAll(name, ".", "_"))+".txt")
			if *update {
				answer := ask(t, conn, question)
				text := fmt.Sprintf("# %s: %s\n\n%s\n%s", name, x.about, explainBytes(">", question), explainBytes("<", answer))
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, answer := readGolden(t, file)
			if !bytes.Equal(question, want) {
				t.Errorf("the question is\n%s", explainBytes(">", question))
			}
			if got := ask(t, conn, want); !bytes.Equal(got, answer) {
				t.Errorf("the answer is\n%s", explainBytes("<", got))
			}
		})
	}
}

func ask(t *testing.T, conn net.Conn, question []byte) (answer []byte) {
	t.Helper()
	conn.Write(question)
	r := &frameReader{conn: conn, patient: time.Minute}
	for range 2 {
		frame, err := r.next(MaxReply, true)
		if err != nil {
			t.Fatal(err)
		}
		answer = append(answer, frame...)
	}
	return answer
}

// readGolden reads the bytes that are sent (>) and that come back (<).
func readGolden(t testing.TB, file string) (sent, back []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		way, rest, _ := strings.Cut(line, " ")
		digits, _, _ := strings.Cut(rest, "#")
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(digits), " ", ""))
		switch {
		case way == ">" && err == nil:
			sent = append(sent, b...)
		case way == "<" && err == nil:
			back = append(back, b...)
		case err != nil && way != "#":
			t.Fatalf("%s: %q: %v", file, line, err)
		}
	}
	return sent, back
}

// explainBytes writes each token on a line of its own.
func explainBytes(way string, b []byte) string {
	var out strings.Builder
	if way == ">" {
		fmt.Fprintf(&out, "%s %02x  # one RPC stream\n", way, b[0])
		b = b[1:]
	}
	var open []int // values to come, of each container
	for len(b) > 0 {
		head, body, items, kind := token(b)
		one := b[:head+body]
		what := kind
		switch kind {
		case "":
			panic(fmt.Sprintf("no value begins with %x", b))
		case "map":
			what = fmt.Sprintf("map of %d", items/2)
		case "list":
			what = fmt.Sprintf("list of %d", items)
		case "integer":
			what = "an integer below 0"
			if n, ok := msgpack.Uint(one); ok {
				what = fmt.Sprint(n)
			}
		case "float":
			what = fmt.Sprint(floatOf(one))
		case "bool":
			what = fmt.Sprint(one[0] == 0xc3)
		case "string":
			text := one[head:]
			what = fmt.Sprintf("%q", text)
			var at time.Time
			if len(text) == 15 && at.UnmarshalBinary(text) == nil {
				what = at.Format(time.RFC3339Nano)
			}
		}
		fmt.Fprintf(&out, "%s %s  # %s%s\n", way, strings.TrimSpace(fmt.Sprintf("% x", one[:head])+" "+hex.EncodeToString(one[head:])), strings.Repeat("  ", len(open)), what)
		b = b[len(one):]
		if items > 0 {
			open = append(open, items)
			continue
		}
		for len(open) > 0 {
			if open[len(open)-1]--; open[len(open)-1] > 0 {
				break
			}
			open = open[:len(open)-1]
		}
	}
	return out.String()
}
