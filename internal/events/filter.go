package events

import (
	"slices"
	"strings"

	"berth"
)

// Filter says which events are wanted: those of any of its topics. Rights are
// not its business.
type Filter struct {
	wants     []want
	namespace string // AllNamespaces is any
}

// want is one topic, of everything or of what has a key.
type want struct {
	topic Topic // "" is any
	key   string
	id    [16]byte  // the key, if it is an ID
	uid   berth.UID // the key, if it is a UID
}

// MaxWants is how many topics one filter may have.
const MaxWants = 64

// ParseFilter makes a filter of parameters: each topic is "Job", "Job:web",
// "*", or "*:web"; none is all.
func ParseFilter(topics []string, namespace string) (*Filter, error) {
	if len(topics) > MaxWants {
		return nil, berth.Errorf(berth.Invalid, "topic: it is given %d times; allowed are %d", len(topics), MaxWants)
	}
	f := &Filter{namespace: namespace}
	for _, text := range topics {
		name, key, _ := strings.Cut(text, ":")
		w := want{topic: Topic(name), key: key}
		if key == "*" {
			w.key = ""
		}
		switch {
		case name == "*":
			w.topic = ""
		case !slices.Contains(Topics, w.topic):
			return nil, berth.Errorf(berth.Invalid, "topic: %q; there are events of *, Job, Evaluation, Allocation, Deployment, Node, NodePool, Service and Resource", name[:min(len(name), 64)])
		}
		if id, err := berth.ParseID[berth.Eval](key); err == nil {
			w.id = id
		}
		if len(key) > 2 && key[1] == '-' {
			w.uid.UnmarshalText([]byte(key))
		}
		f.wants = append(f.wants, w)
	}
	if len(f.wants) == 0 {
		f.wants = []want{{}}
	}
	return f, nil
}

// Open says whether the filter takes events of any topic.
func (f *Filter) Open() bool {
	return slices.ContainsFunc(f.wants, func(w want) bool { return w.topic == "" })
}

// Topics returns the topics that the filter names.
func (f *Filter) Topics() []Topic {
	var out []Topic
	for _, w := range f.wants {
		if w.topic != "" {
			out = append(out, w.topic)
		}
	}
	return out
}

// Wants says whether an event passes. Nodes and their pools stand in no namespace and pass in
// each.
func (f *Filter) Wants(e *Event) bool {
	if f.namespace != berth.AllNamespaces && e.Topic != Node && e.Topic != NodePool && e.Namespace() != f.namespace {
		return false
	}
	for i := range f.wants {
		w := &f.wants[i]
		if (w.topic == "" || w.topic == e.Topic) && (w.key == "" || w.names(e)) {
			return true
		}
	}
	return false
}

// names says whether the key is the event's own or one of its filter keys. It
// compares IDs as they are stored: every event meets every filter.
func (w *want) names(e *Event) bool {
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
	return false
}

func (w *want) text(id berth.JobID) bool { return w.key == string(id) }

func (w *want) is(id [16]byte) bool { return w.id == id && id != [16]byte{} }
