package events

import (
	"slices"
	"strings"
	"testing"

	"berth"
	"berth/internal/state/statetest"
)

// some are events of every topic.
func some() []*Event {
	job := &berth.Job{Namespace: "default", ID: "web", ParentID: "parent"}
	id := statetest.ID[berth.Eval]
	return []*Event{
		{Topic: Job, Row: job},
		{Topic: Job, Row: &berth.Job{Namespace: "other", ID: "web"}},
		{Topic: Evaluation, Row: &berth.Eval{ID: id(1), Namespace: "default", JobID: "web", NodeID: statetest.ID[berth.Node](2)}},
		{Topic: Evaluation, Row: &berth.Eval{ID: id(3), Namespace: "other", JobID: "a:b", DeploymentID: statetest.ID[berth.Deployment](4)}},
		{Topic: Allocation, Row: &berth.Alloc{ID: statetest.ID[berth.Alloc](5), Job: job, NodeID: statetest.ID[berth.Node](2), EvalID: id(1)}},
		{Topic: Allocation, Row: &berth.Alloc{ID: statetest.ID[berth.Alloc](6), Job: job, More: &berth.AllocMore{DeploymentID: statetest.ID[berth.Deployment](4)}}},
		{Topic: Deployment, Row: &berth.Deployment{ID: statetest.ID[berth.Deployment](4), Namespace: "default", JobID: "web"}},
		{Topic: Node, Row: &berth.Node{ID: statetest.ID[berth.Node](2)}},
	}
}

func TestFilters(t *testing.T) {
	id := func(n int) string { return statetest.ID[berth.Eval](n).String() }
	for _, c := range []struct {
		topics    string // parted by spaces
		namespace string
		want      []int // of some
	}{
		{"", "*", []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"*", "default", []int{0, 2, 4, 5, 6, 7}},
		{"*:*", "other", []int{1, 3, 7}},
		{"Job", "default", []int{0}},
		{"Job:*", "*", []int{0, 1}},
		{"Job:", "*", []int{0, 1}},
		{"Job:parent", "*", []int{0}},
		{"Job:nothing", "*", nil},
		{"Evaluation:web", "*", []int{2}},
		{"Evaluation:a:b", "*", []int{3}},
		{"Allocation:" + id(2), "*", []int{4}},
		{"Allocation:" + id(1), "*", []int{4}},
		{"Allocation:" + id(4), "*", []int{5}},
		{"Allocation:" + strings.ToUpper(id(5)), "*", []int{4}},
		{"Deployment:web", "default", []int{6}},
		{"Node", "nowhere", []int{7}},
		{"Node:" + id(2) + " Job:web", "other", []int{1, 7}},
		{"*:web", "*", []int{0, 1, 2, 4, 5, 6}},
		{"*:" + id(2), "*", []int{2, 4, 7}},
	} {
		f, err := ParseFilter(strings.Fields(c.topics), c.namespace)
		if err != nil {
			t.Errorf("%q: %v", c.topics, err)
			continue
		}
		var got []int
		for i, e := range some() {
			if f.Matches(e) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %s: %v; wanted are %v", c.topics, c.namespace, got, c.want)
		}
	}
	for _, bad := range [][]string{{"job"}, {"Volume"}, {""}, {":web"}, {"Job", "Jobs:web"}, slices.Repeat([]string{"Job"}, MaxTopics+1)} {
		if _, err := ParseFilter(bad, "*"); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%.3q: %v", bad, err)
		}
	}
}

// The keys of an event, the job first, which clients rely on.
func TestKeys(t *testing.T) {
	for i, e := range some() {
		if keys := e.FilterKeys(); keys == nil || (e.Topic == Allocation || e.Topic == Evaluation || e.Topic == Deployment) && (keys[0] != "web" && keys[0] != "a:b") {
			t.Errorf("%d: %q", i, keys)
		}
	}
}

// FuzzFilter: whatever is asked for, the answer is the one that the texts of
// keys give.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{"Job:web", "*", "*:web", "Allocation:00000005-0000-0000-0000-000000000001", "Node:", "Evaluation:a:b", "x", ""} {
		f.Add(s, "default")
		f.Add(s, "*")
	}
	f.Fuzz(func(t *testing.T, topic, namespace string) {
		filter, err := ParseFilter([]string{topic}, namespace)
		if err != nil {
			return
		}
		name, key, _ := strings.Cut(topic, ":")
		for _, e := range some() {
			named := slices.ContainsFunc(append(e.FilterKeys(), e.Key()), func(k string) bool {
				return k == key || len(key) == 36 && strings.EqualFold(k, key)
			})
			want := (name == "*" || name == string(e.Topic)) && (key == "" || key == "*" || named) &&
				(namespace == "*" || e.Topic == Node || e.Namespace() == namespace)
			if got := filter.Matches(e); got != want {
				t.Errorf("%q in %q: %v of %s %s", topic, namespace, got, e.Topic, e.Key())
			}
		}
	})
}
