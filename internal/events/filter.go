package events

import (
	"slices"
	"strings"

	"berth"
)

// Filter selects the events of some topics. It does not check permissions.
type Filter struct {
	clauses   []clause // one of them is enough
	namespace string   // AllNamespaces means any
}

// clause selects the events of a topic, all of them or those with a key.
type clause struct {
	topic Topic     // "" means any
	key   string    // "" means any
	id    [16]byte  // the key, if it is an ID
	uid   berth.UID // the key, if it is a UID
}

// MaxTopics is the maximum number of topics in a filter.
const MaxTopics = 64

// known lists the topics for people.
func known() string {
	var names []string
	for _, t := range Topics[:len(Topics)-1] {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ") + " or " + string(Topics[len(Topics)-1])
}

// ParseFilter parses the parameters of a filter. A topic is "Job", "Job:web",
// "*" or "*:web"; no topics mean all.
func ParseFilter(topics []string, namespace string) (*Filter, error) {
	if len(topics) > MaxTopics {
		return nil, berth.Errorf(berth.Invalid, "topic: must be given at most %d times, got %d", MaxTopics, len(topics))
	}
	f := &Filter{namespace: namespace}
	for _, text := range topics {
		name, key, paired := strings.Cut(text, ":")
		// Without a colon the key is empty, which selects all of the topic.
		w := clause{topic: Topic(name), key: key}
		if key == "*" {
			w.key = ""
		}
		switch {
		case name == "" && paired:
			return nil, berth.Errorf(berth.Invalid, "topic: Invalid key value pair %q: want TOPIC or TOPIC:KEY", berth.Clip(text, 64))
		case name == "*":
			w.topic = ""
		case !slices.Contains(Topics, w.topic):
			return nil, berth.Errorf(berth.Invalid, "topic: unknown topic %q: want *, %s", berth.Clip(name, 64), known())
		}
		// IDs of all kinds have one form, so any type parses them.
		if id, err := berth.ParseID[berth.Eval](key); err == nil {
			w.id = id
		}
		// A key that may be a UID is compared as text, too.
		if len(key) > 2 && key[1] == '-' {
			w.uid.UnmarshalText([]byte(key))
		}
		f.clauses = append(f.clauses, w)
	}
	if len(f.clauses) == 0 {
		f.clauses = []clause{{}}
	}
	return f, nil
}

// Open reports whether the filter takes events of any topic.
func (f *Filter) Open() bool {
	return slices.ContainsFunc(f.clauses, func(w clause) bool { return w.topic == "" })
}

// Topics returns the topics that the filter names.
func (f *Filter) Topics() []Topic {
	var out []Topic
	for _, w := range f.clauses {
		if w.topic != "" {
			out = append(out, w.topic)
		}
	}
	return out
}

// Matches reports whether an event passes. Rows that belong to no namespace
// pass in each.
func (f *Filter) Matches(e *Event) bool {
	if f.namespace != berth.AllNamespaces && e.Topic.Namespaced() && e.Namespace() != f.namespace {
		return false
	}
	for i := range f.clauses {
		if f.clauses[i].matches(e) {
			return true
		}
	}
	return false
}

// Size is the number of topics that the filter was made of, at least 1.
func (f *Filter) Size() int { return len(f.clauses) }

// MatchesOf reports whether an event that passes does so by the topic of that
// number, from 0 to Size-1 in the order given.
func (f *Filter) MatchesOf(i int, e *Event) bool { return f.clauses[i].matches(e) }

// matches reports whether the clause selects an event.
func (w *clause) matches(e *Event) bool {
	return (w.topic == "" || w.topic == e.Topic) && (w.key == "" || w.names(e))
}

// names reports whether the key is the event's own or one of its filter keys.
// It compares IDs in binary form, because every event meets every filter.
func (w *clause) names(e *Event) bool {
	if e.Topic == Resource {
		_, name, uid, owner, job := e.object()
		return w.text(job.ID) || w.key == name || !w.uid.IsZero() && (w.uid == uid || w.uid == owner)
	}
	switch v := e.Row.(type) {
	case *berth.Job:
		return w.text(v.ID) || w.text(v.ParentID)
	case *berth.Eval:
		return w.text(v.JobID) || w.is(v.ID) || w.is(v.DeploymentID) || w.is(v.NodeID)
	case *berth.Alloc:
		return w.text(v.Job.ID) || w.is(v.ID) || w.is(v.Rest().DeploymentID) || w.is(v.EvalID) || w.is(v.NodeID)
	case *berth.Deployment:
		return w.text(v.JobID) || w.is(v.ID)
	case *berth.NodePool:
		return w.key == v.Name
	case *berth.ServiceRegistration:
		return w.key == v.ID || w.key == v.ServiceName || w.text(v.JobID) || w.is(v.AllocID) || w.is(v.NodeID)
	case *berth.Node:
		return w.is(v.ID)
	}
	// The other rows change seldom.
	return w.key == e.Key() || slices.Contains(e.FilterKeys(), w.key)
}

// text reports whether the key is a job's ID.
func (w *clause) text(id berth.JobID) bool { return w.key == string(id) }

// is reports whether the key is that ID. A zero ID is no ID and matches no key.
func (w *clause) is(id [16]byte) bool { return w.id == id && id != [16]byte{} }
