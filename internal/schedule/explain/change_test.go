package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/schedule/explain"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// What is proposed in which plight, the smallest change first.
func TestProposals(t *testing.T) {
	job := func(more, group string) state.Command {
		return statetest.Register(statetest.Job(t, `{"ID":"web",`+more+`"TaskGroups":[{"Name":"g",`+group+`}]}`), 1)
	}
	node := func(n int, cpu, mem int64, change ...func(*berth.Node)) state.Command {
		return statetest.AddNode(n, cpu, mem, change...)
	}
	class := func(name string) func(*berth.Node) { return func(n *berth.Node) { n.NodeClass = name } }
	const room = ", with at least 100 MHz, 300 MiB of memory and 300 MiB of disk free"
	for _, c := range []struct {
		name string
		cmds []state.Command
		want []string
	}{
		{"a little memory too much", []state.Command{node(1, 4000, 1000, class("c2")), job("", `"Count":1,"Resources":{"CPU":100,"MemoryMB":1256}`)}, []string{
			"256 MiB less memory (1000 instead of 1256)",
			"one more node, larger than those of class c2, with at least 100 MHz, 1256 MiB of memory and 300 MiB of disk free",
		}},
		{"of several instances some have a place", []state.Command{node(1, 4000, 1000), job("", `"Count":3,"Resources":{"CPU":100,"MemoryMB":400}`)}, []string{
			"67 MiB less memory (333 instead of 400)", // when the two that run have made way for smaller ones
			"one more node like n1, with at least 100 MHz, 400 MiB of memory and 300 MiB of disk free",
		}},
		{"two tasks", []state.Command{node(1, 1000, 1000), job("", `"Count":1,"Tasks":[
			{"Name":"big","Driver":"mock_driver","Resources":{"CPU":900,"MemoryMB":100}},{"Name":"small","Driver":"mock_driver","Resources":{"CPU":200,"MemoryMB":100}}]`)}, []string{
			"100 MHz less cpu (1000 instead of 1100)",
			"one more node, larger than n1, with at least 1100 MHz, 200 MiB of memory and 300 MiB of disk free",
		}},
		{"another datacenter", []state.Command{node(1, 4000, 1000), job(`"Datacenters":["dc2"],`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			`datacenter "dc1" added to the job's datacenters`,
			"one more node like n1 in datacenter dc2" + room,
		}},
		{"another pool", []state.Command{node(1, 4000, 1000), &state.UpsertNodePools{Pools: []*berth.NodePool{{Name: "gpu"}}}, job(`"NodePool":"gpu",`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			`node pool "default" instead of the job's`,
			"one more node like n1 in node pool gpu" + room,
		}},
		{"a driver that nobody has", []state.Command{
			node(1, 4000, 1000, func(n *berth.Node) { delete(n.Drivers, "raw_exec") }),
			job("", `"Count":1,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"},"Resources":{"CPU":100,"MemoryMB":300}}]`),
		}, []string{
			`plugin "raw_exec" { config { enabled = true } } in the configuration of node n1, which has raw_exec disabled`,
			"one more node like n1, with the driver raw_exec" + room,
		}},
		{"a misspelt attribute", []state.Command{
			node(1, 4000, 1000, func(n *berth.Node) { n.Attributes["kernel.name"] = "linux" }),
			job("", `"Count":1,"Constraints":[{"LTarget":"${attr.kernel.nmae}","Operand":"=","RTarget":"linux"}],"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"${attr.kernel.name} instead of ${attr.kernel.nmae}, which no node has",
			"one more node like n1, with ${attr.kernel.nmae} = linux" + room,
			`without the constraint "${attr.kernel.nmae} = linux"`,
		}},
		{"an ineligible node", []state.Command{
			node(1, 4000, 1000), &state.SetNodeEligibility{ID: statetest.ID[berth.Node](1), Eligibility: berth.NodeIneligible},
			job("", `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"node n1 made eligible: node eligibility -enable 00000001",
			"one more node, with the driver mock_driver" + room,
		}},
		{"no node at all", []state.Command{job("", `"Count":1,"Constraints":[{"LTarget":"${attr.version}","Operand":"version","RTarget":">= 1.2, < 2"}],"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			"one more node, with the driver mock_driver, with ${attr.version} = 1.2" + room,
		}},
		{"no node at all, in a datacenter with a name", []state.Command{job(`"Datacenters":["eu-*","dc7"],`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			"one more node in datacenter dc7, with the driver mock_driver" + room,
		}},
		{"no node at all, in a datacenter with a pattern", []state.Command{job(`"Datacenters":["eu-?"],`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			"one more node in a datacenter that matches eu-?, with the driver mock_driver" + room,
		}},
		{"no node at all, anywhere", []state.Command{job(`"Datacenters":["dc7","*"],`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			"one more node, with the driver mock_driver" + room,
		}},
		{"a node where the job does not run", []state.Command{node(1, 4000, 1000), job(`"Datacenters":["eu-*"],`, `"Count":1,"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			`datacenter "dc1" added to the job's datacenters`,
			"one more node like n1 in a datacenter that matches eu-*" + room,
		}},
		{"a constraint, and too much memory", []state.Command{
			node(1, 4000, 1000),
			job("", `"Count":1,"Constraints":[{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"}],"Resources":{"CPU":100,"MemoryMB":1256}`),
		}, []string{
			"one more node, larger than n1, with ${meta.disk} = ssd, with at least 100 MHz, 1256 MiB of memory and 300 MiB of disk free",
			`without the constraint "${meta.disk} = ssd", and 256 MiB less memory (1000 instead of 1256)`,
		}},
		{"two constraints", []state.Command{
			node(1, 4000, 1000),
			job("", `"Count":1,"Constraints":[{"LTarget":"${meta.disk}","Operand":"=","RTarget":"ssd"},{"LTarget":"${meta.zone}","Operand":"=","RTarget":"a"}],"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"one more node like n1, with ${meta.disk} = ssd, with ${meta.zone} = a" + room,
			`without the constraint "${meta.disk} = ssd", and without the constraint "${meta.zone} = a"`,
		}},
		{"too much CPU and too much memory", []state.Command{node(1, 1000, 1000), job("", `"Count":1,"Resources":{"CPU":1100,"MemoryMB":1256}`)}, []string{
			"100 MHz less cpu (1000 instead of 1100), and 256 MiB less memory (1000 instead of 1256)",
			"one more node, larger than n1, with at least 1100 MHz, 1256 MiB of memory and 300 MiB of disk free",
		}},
		{"an ineligible node, and too much memory", []state.Command{
			node(1, 4000, 1000), &state.SetNodeEligibility{ID: statetest.ID[berth.Node](1), Eligibility: berth.NodeIneligible},
			job("", `"Count":1,"Resources":{"CPU":100,"MemoryMB":1100}`),
		}, []string{
			"node n1 made eligible: node eligibility -enable 00000001, and 100 MiB less memory (1000 instead of 1100)",
			"one more node, with the driver mock_driver, with at least 100 MHz, 1100 MiB of memory and 300 MiB of disk free",
		}},
		{"a misspelt attribute, and too much memory", []state.Command{
			node(1, 4000, 1000, func(n *berth.Node) { n.Attributes["kernel.name"] = "linux" }),
			job("", `"Count":1,"Constraints":[{"LTarget":"${attr.kernel.nmae}","Operand":"=","RTarget":"linux"}],"Resources":{"CPU":100,"MemoryMB":1100}`),
		}, []string{
			"${attr.kernel.name} instead of ${attr.kernel.nmae}, which no node has, and 100 MiB less memory (1000 instead of 1100)",
			"one more node, larger than n1, with ${attr.kernel.nmae} = linux, with at least 100 MHz, 1100 MiB of memory and 300 MiB of disk free",
		}},
		{"a driver that nobody has, and too much memory", []state.Command{
			node(1, 4000, 1000, func(n *berth.Node) { delete(n.Drivers, "raw_exec") }),
			job("", `"Count":1,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"},"Resources":{"CPU":100,"MemoryMB":1100}}]`),
		}, []string{
			`plugin "raw_exec" { config { enabled = true } } in the configuration of node n1, which has raw_exec disabled, and 100 MiB less memory (1000 instead of 1100)`,
			"one more node, larger than n1, with the driver raw_exec, with at least 100 MHz, 1100 MiB of memory and 300 MiB of disk free",
		}},
		{"a port and memory that another job holds", []state.Command{
			node(1, 4000, 1000),
			statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[{"Name":"g","Networks":[{"ReservedPorts":[{"Label":"a","Value":8080}]}],"Count":1,"Resources":{"CPU":100,"MemoryMB":600}}]}`), 2),
			job("", `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"a","Value":8080}]}],"Resources":{"CPU":100,"MemoryMB":500}`),
		}, []string{
			"port 8080 of node n1, if other.g[0] released it",
			"one more node like n1, with at least 100 MHz, 500 MiB of memory and 300 MiB of disk free",
		}},
		{"a port that another job holds, and too much memory", []state.Command{
			node(1, 4000, 1000),
			statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[{"Name":"g","Networks":[{"ReservedPorts":[{"Label":"a","Value":8080}]}],"Count":1,"Resources":{"CPU":100,"MemoryMB":100}}]}`), 2),
			job("", `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"a","Value":8080}]}],"Resources":{"CPU":100,"MemoryMB":1100}`),
		}, []string{
			"one more node, larger than n1, with at least 100 MHz, 1100 MiB of memory and 300 MiB of disk free",
			"a dynamic port instead of 8080, and 200 MiB less memory (900 instead of 1100)",
		}},
		{"two ports that two allocations hold", []state.Command{
			node(1, 4000, 1000),
			statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[
				{"Name":"a","Networks":[{"ReservedPorts":[{"Label":"a","Value":8080}]}],"Count":1,"Resources":{"CPU":100,"MemoryMB":100}},
				{"Name":"b","Networks":[{"ReservedPorts":[{"Label":"a","Value":8081}]}],"Count":1,"Resources":{"CPU":100,"MemoryMB":100}}]}`), 2),
			job("", `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"a","Value":8080},{"Label":"b","Value":8081}]}],"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"one more node like n1" + room,
			"a dynamic port instead of 8080, and port 8081 of node n1, if other.b[0] released it",
		}},
		{"a port that another job holds", []state.Command{
			node(1, 4000, 1000),
			statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[{"Name":"g","Networks":[{"ReservedPorts":[{"Label":"http","Value":8080}]}],"Resources":{"CPU":100,"MemoryMB":100}}]}`), 2),
			job("", `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"http","Value":8080}]}],"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"port 8080 of node n1, if other.g[0] released it",
			"a dynamic port instead of 8080",
			"one more node like n1" + room,
		}},
		{"a port of a host network that another job holds", []state.Command{
			node(1, 4000, 1000, func(n *berth.Node) {
				lan := berth.NodeNetworkAddress{Alias: "lan", Address: "10.0.0.1"}
				n.NodeResources.NodeNetworks = []berth.NodeNetwork{{Mode: berth.NetworkHost, Addresses: []berth.NodeNetworkAddress{lan}}}
			}),
			statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[{"Name":"g","Networks":[{"ReservedPorts":[{"Label":"http","Value":8080,"HostNetwork":"lan"}]}],"Resources":{"CPU":100,"MemoryMB":100}}]}`), 2),
			job("", `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"http","Value":8080,"HostNetwork":"lan"}]}],"Resources":{"CPU":100,"MemoryMB":300}`),
		}, []string{
			"port 8080 on lan of node n1, if other.g[0] released it",
			"a dynamic port instead of 8080 on lan",
			"one more node like n1" + room,
		}},
		{"hosts must differ", []state.Command{node(1, 4000, 1000), job("", `"Count":2,"Constraints":[{"Operand":"distinct_hosts"}],"Resources":{"CPU":100,"MemoryMB":300}`)}, []string{
			"one more node like n1" + room,
			`without the constraint "distinct_hosts"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCluster(t, c.cmds...)
			k.decide()
			x := explain.Job(k.snap(), key("web"), nowhere, k.now)
			var got []string
			for _, ch := range x.Groups[0].Changes {
				got = append(got, ch.Text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("proposed are\n  %s\nand should be\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// An attribute that no node has is named, whether or not one is similar, and
// whether or not another name alone would help.
func TestAttributesThatNoNodeHas(t *testing.T) {
	k := newCluster(t, statetest.AddNode(1, 4000, 1000, func(n *berth.Node) { n.Attributes["kernel.name"] = "linux" }),
		statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g","Count":1,"Resources":{"CPU":100,"MemoryMB":5000},"Constraints":[
			{"LTarget":"${attr.kernel.nmae}","Operand":"=","RTarget":"linux"},
			{"LTarget":"${meta.rack}","Operand":"=","RTarget":"a"},
			{"LTarget":"${meta.gone}","Operand":"is_not_set"},
			{"LTarget":"${attr.kernel.name}","Operand":"=","RTarget":"plan9"}]}]}`), 1))
	k.decide()
	want := []op.Unknown{{Attribute: "${attr.kernel.nmae}", Similar: "${attr.kernel.name}"}, {Attribute: "${meta.rack}"}}
	if got := explain.Job(k.snap(), key("web"), nowhere, k.now).Groups[0].Unknown; !slices.Equal(got, want) {
		t.Errorf("unknown are %v, want %v", got, want)
	}
}

// What a blocked evaluation waits for names a static port and who holds it.
func TestABlockedEvaluationNamesItsPort(t *testing.T) {
	const port = `"Count":1,"Networks":[{"ReservedPorts":[{"Label":"http","Value":8080}]}],"Resources":{"CPU":100,"MemoryMB":100}}]}`
	k := newCluster(t, statetest.AddNode(1, 4000, 1000),
		statetest.Register(statetest.Job(t, `{"ID":"other","TaskGroups":[{"Name":"g",`+port), 2), statetest.Register(statetest.Job(t, `{"ID":"web","TaskGroups":[{"Name":"g",`+port), 1))
	k.decide()
	x := explain.Job(k.snap(), key("web"), nowhere, k.now)
	if len(x.Waits) != 1 || !strings.HasSuffix(x.Waits[0].Why, "; exhausted: port 8080 (held by other.g[0])") {
		t.Errorf("it waits for %+v", x.Waits)
	}
}

// Of what runs is said why it is where it is, and what came next.
func TestWhyThere(t *testing.T) {
	c := newCluster(t, statetest.AddNode(1, 1000, 1000), statetest.AddNode(2, 4000, 4000), statetest.Register(web(t, 1, 600, 5e9), 1))
	c.decide()
	x := explain.Job(c.snap(), key("web"), nowhere, c.now)
	a := x.Groups[0].Allocs[0]
	want := fmt.Sprintf("the best of 2 nodes: score %.3f (binpack %.3f); the next was n2 with %.3f", a.Score, a.Score, a.RunnerUpScore)
	if x.Verdict != op.WhyRuns || a.NodeName != "n1" || a.RunnerUpName != "n2" || a.Score <= a.RunnerUpScore || a.Text != want {
		t.Errorf("%s: %+v", x.Verdict, a)
	}
}

// The fit has the name of the algorithm that placed the allocation, as long as
// that is sure.
func TestWhyThereNamesTheAlgorithm(t *testing.T) {
	for _, algorithm := range []string{berth.AlgorithmBinpack, berth.AlgorithmSpread, berth.AlgorithmBalanced} {
		config := *state.New().Snapshot().SchedulerConfig()
		config.SchedulerAlgorithm = algorithm
		c := newCluster(t, &state.SetSchedulerConfig{Config: config}, statetest.AddNode(1, 1000, 1000), statetest.AddNode(2, 4000, 4000), statetest.Register(web(t, 1, 600, 5e9), 1))
		c.decide()
		a := explain.Job(c.snap(), key("web"), nowhere, c.now).Groups[0].Allocs[0]
		if want := fmt.Sprintf("(%s %.3f)", algorithm, a.Scores["binpack"]); !strings.Contains(a.Text, want) {
			t.Errorf("%s: %q does not contain %q", algorithm, a.Text, want)
		}
		config.SchedulerAlgorithm = berth.AlgorithmSpread
		c.Must(t, &state.SetSchedulerConfig{Config: config})
		a = explain.Job(c.snap(), key("web"), nowhere, c.now).Groups[0].Allocs[0]
		if want := fmt.Sprintf("(fit %.3f)", a.Scores["binpack"]); !strings.Contains(a.Text, want) {
			t.Errorf("%s, and then another: %q does not contain %q", algorithm, a.Text, want)
		}
	}
}
