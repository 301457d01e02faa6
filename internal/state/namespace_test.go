package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"berth"
	"berth/internal/state"
	"berth/internal/state/statetest"
)

// spaces returns the command that writes namespaces of these names.
func spaces(names ...string) *state.UpsertNamespaces {
	c := &state.UpsertNamespaces{}
	for _, n := range names {
		c.Namespaces = append(c.Namespaces, &berth.Namespace{Name: n})
	}
	return c
}

// jobIn returns the command that registers a job in a namespace.
func jobIn(t testing.TB, namespace string, id berth.JobID, seed int, change func(*berth.Job)) *state.RegisterJob {
	j := statetest.Job(t, fmt.Sprintf(`{"ID": %q, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver"}]}]}`, id))
	j.Namespace = namespace
	if change != nil {
		change(j)
	}
	return statetest.Register(j, seed)
}

// Namespaces are made, changed, and deleted when no job is left; the default one
// is always there.
func TestNamespaces(t *testing.T) {
	store, log := statetest.New(t, statetest.AddNode(1, 4000, 4000))
	names := func() (out []string) {
		for n := range store.Snapshot().Namespaces() {
			out = append(out, n.Name)
		}
		return out
	}
	watch := store.Watch(state.OnNamespace("dev"))
	defer watch.Stop()
	log.Must(t, spaces("dev", "prod"))
	select {
	case <-watch.C():
	default:
		t.Error("who waits for a namespace does not see that it was made")
	}
	made := store.Snapshot().Namespace("dev")
	changed := spaces("dev", "default")
	changed.Namespaces[0].Description, changed.Namespaces[1].Meta = "For trying things.", map[string]string{"a": "b"}
	log.Must(t, changed)
	if n := store.Snapshot().Namespace("dev"); n.Description == "" || n.CreateIndex != made.CreateIndex || n.ModifyIndex <= made.ModifyIndex {
		t.Errorf("%+v, before %+v", n, made)
	}
	if store.Snapshot().LogVersion != 4 {
		t.Errorf("the log version is %d", store.Snapshot().LogVersion)
	}

	// All or nothing.
	refusedAs(t, log, spaces("new", "no name"), berth.Invalid, `invalid name "no name"`)
	refusedAs(t, log, spaces("-"), berth.Invalid, "invalid name")
	refusedAs(t, log, spaces("*"), berth.Invalid, "invalid name")
	refusedAs(t, log, spaces(), berth.Invalid, "must name 1 to 1000, got 0")
	refusedAs(t, log, &state.UpsertNamespaces{Namespaces: make([]*berth.Namespace, 2)}, berth.Invalid, "one of them is empty")
	quota := spaces("new")
	quota.Namespaces[0].Quota = "q"
	refusedAs(t, log, quota, berth.Invalid, `quota "q" not found`)
	pool := spaces("new")
	pool.Namespaces[0].NodePoolConfiguration = &berth.NamespaceNodePoolConfiguration{Default: "gpu"}
	refusedAs(t, log, pool, berth.Invalid, `node pool "gpu" not found`)
	both := spaces("new")
	both.Namespaces[0].NodePoolConfiguration = &berth.NamespaceNodePoolConfiguration{Allowed: []string{"a"}, Denied: []string{"b"}}
	refusedAs(t, log, both, berth.Invalid, "must not be set together with Allowed")
	refusedAs(t, log, &state.DeleteNamespaces{Names: []string{"dev", "default"}}, berth.Invalid, "built in")
	refusedAs(t, log, &state.DeleteNamespaces{Names: []string{"dev", "gone"}}, berth.NotFound, `"gone" not found`)
	refusedAs(t, log, &state.DeleteNamespaces{}, berth.Invalid, "must name 1 to 1000, got 0")

	log.Must(t, jobIn(t, "dev", "web", 1, nil))
	refusedAs(t, log, &state.DeleteNamespaces{Names: []string{"prod", "dev"}}, berth.Conflict, "1 job (web); stop them with -purge")
	log.Must(t, &state.DeleteNamespaces{Names: []string{"prod", "prod"}})
	if got := names(); !slices.Equal(got, []string{"default", "dev"}) {
		t.Errorf("left are %v", got)
	}
	refusedAs(t, log, jobIn(t, "prod", "web", 2, nil), berth.Invalid, `namespace "prod" not found`)

	var b bytes.Buffer
	if err := store.Snapshot().Save(&b); err != nil {
		t.Fatal(err)
	}
	again, err := state.Load(&b)
	if err != nil || again.Hash() != store.Snapshot().Hash() || again.Namespace("dev").Description == "" {
		t.Errorf("saved and loaded, it is another: %v", err)
	}
}

// What a namespace does not let jobs use is refused, each with its place.
func TestNamespacesRestrictJobs(t *testing.T) {
	_, log := statetest.New(t, statetest.AddNode(1, 4000, 4000), upsert("gpu", "prod"))
	c := spaces("dev")
	c.Namespaces[0].Capabilities = &berth.NamespaceCapabilities{DisabledTaskDrivers: []string{"docker"}, EnabledNetworkModes: []string{"bridge"}}
	c.Namespaces[0].NodePoolConfiguration = &berth.NamespaceNodePoolConfiguration{Default: "prod", Allowed: []string{"g*"}}
	log.Must(t, c)
	refusedAs(t, log, jobIn(t, "dev", "web", 1, nil), berth.Invalid, `job.node_pool: namespace "dev" does not allow node pool "default"`)
	in := func(pool, driver, mode string) func(*berth.Job) {
		return func(j *berth.Job) {
			j.NodePool, j.TaskGroups[0].Tasks[0].Driver = pool, driver
			j.TaskGroups[0].Networks = []berth.NetworkResource{{Mode: mode}}
		}
	}
	refusedAs(t, log, jobIn(t, "dev", "web", 1, in("gpu", "docker", "bridge")), berth.Invalid, `does not allow driver "docker"`)
	refusedAs(t, log, jobIn(t, "dev", "web", 1, in("gpu", "exec", "")), berth.Invalid, `network.mode: namespace "dev" does not allow network mode "host"`)
	log.Must(t, jobIn(t, "dev", "web", 1, in("gpu", "exec", "bridge")))
	log.Must(t, jobIn(t, "dev", "web", 2, in("prod", "exec", "bridge")))

	// A job that is there stays, and can be changed only to what is allowed now.
	c.Namespaces[0].Capabilities = &berth.NamespaceCapabilities{EnabledTaskDrivers: []string{"raw_exec"}}
	log.Must(t, c)
	refusedAs(t, log, jobIn(t, "dev", "web", 3, in("prod", "exec", "bridge")), berth.Invalid, `does not allow driver "exec"`)
	log.Must(t, jobIn(t, "dev", "web", 3, in("prod", "raw_exec", "host")))
}
