package api

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"berth"
	"berth/internal/acl"
	"berth/internal/state"
	"berth/op"
)

// templates registers what agents ask for templates and secrets of tasks.
func (s *Server) templates() { read(s, op.Wants, s.wants) }

// mostWanted bounds one answer, in bytes of values.
const mostWanted = 8 << 20

// wants returns the values that a task wants once they differ from those that its
// agent has. What the task may know is what its identity may read.
func (s *Server) wants(r *Read, in *op.WantsQuery) (out op.WantsAnswer, err error) {
	n, err := prove(r.Snapshot, in.NodeID, r.Query.AuthToken)
	if err != nil {
		return out, err
	}
	a := r.Alloc(in.AllocID)
	switch {
	case a == nil || a.NodeID != n.ID || a.Ended():
		return out, berth.Errorf(berth.Denied, "Permission denied: allocation %s does not run on node %s", in.AllocID, n.ID)
	case a.Group.Task(in.TaskName) == nil:
		return out, berth.Errorf(berth.NotFound, "allocation %s has no task %q", a.ID, berth.Clip(in.TaskName, 64))
	case len(in.Wants) > op.MaxWants:
		return out, berth.Errorf(berth.Invalid, "Wants: must name at most %d, got %d", op.MaxWants, len(in.Wants))
	}
	w := wanter{Read: r, space: a.Job.Namespace, allows: func(acl.Capability, string) bool { return true }}
	if s.guard != nil {
		rights, _ := workloadRights(r.Snapshot, a, in.TaskName)
		w.allows = rights.Allows
	}
	size := 0
	for i := range in.Wants {
		v, err := s.wanted(&w, &in.Wants[i])
		if err != nil {
			return out, err
		}
		for _, x := range v.Variables {
			for k, t := range x.Items {
				size += len(k) + len(t)
			}
		}
		if size > mostWanted {
			return out, berth.Errorf(berth.TooLarge, "the values that the task wants have more than %d bytes", mostWanted)
		}
		out.Values = append(out.Values, v)
	}
	b, err := json.Marshal(struct {
		Wants  []op.Want
		Values []op.Wanted
	}{in.Wants, out.Values})
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(b)
	out.Mark = hex.EncodeToString(sum[:])
	if out.Mark == in.Have {
		r.At(r.Query.MinQueryIndex, w.keys...)
		return out, nil
	}
	r.At(r.Index, w.keys...)
	r.Ready()
	return out, nil
}

// workloadRights returns what a task may do, by being one and by the policies
// that are bound to it, and the names of those.
func workloadRights(s *state.Snapshot, a *berth.Alloc, task string) (rights *acl.ACL, policies []string) {
	const root = "nomad/jobs"
	namespace, job, group := a.Job.Namespace, workloadJob(a.Job), a.Group.Name
	policies = s.WorkloadPolicies(namespace, job, group, task)
	return s.RightsBy(policies...).WithOwn(namespace, root, root+"/"+job, root+"/"+job+"/"+group, root+"/"+job+"/"+group+"/"+task), policies
}

// wanter looks up what one task wants.
type wanter struct {
	*Read
	space  string
	allows func(acl.Capability, string) bool
	keys   []state.WatchKey
}

// wanted looks up one value.
func (s *Server) wanted(w *wanter, x *op.Want) (out op.Wanted, err error) {
	space := cmp.Or(x.Namespace, w.space)
	switch x.Kind {
	case op.WantVariable:
		k := berth.VariableKey{Namespace: space, Path: strings.Trim(x.Name, "/ ")}
		w.keys = append(w.keys, state.OnVariable(k))
		if !w.allows(acl.VariablesRead, acl.Place(space, k.Path)) {
			return op.Wanted{Missing: true, Denied: true}, nil
		}
		v := w.Variable(k)
		if v == nil {
			return op.Wanted{Missing: true}, nil
		}
		items, err := s.openVariable(w.Snapshot, v)
		out.Variables = []op.Variable{{VariableStub: plainStub(v), Items: items}}
		return out, err
	case op.WantVariables:
		w.keys = append(w.keys, state.OnTable(state.Variables))
		for v := range w.VariablesWith(space, strings.TrimPrefix(x.Name, "/")) {
			if w.allows(acl.VariablesList, acl.Place(space, v.Path)) {
				out.Variables = append(out.Variables, op.Variable{VariableStub: plainStub(v)})
			}
		}
	case op.WantService:
		k := berth.ServiceKey{Namespace: space, Name: x.Name}
		w.keys = append(w.keys, state.OnService(k))
		if !w.allows(acl.ReadServices, space) {
			return op.Wanted{Missing: true, Denied: true}, nil
		}
		out.Instances = slices.DeleteFunc(inOrder(w.ServicesNamed(k)), func(r berth.ServiceRegistration) bool { return x.Tag != "" && !slices.Contains(r.Tags, x.Tag) })
		if x.Choose != "" {
			n, key, err := parseChoose(x.Choose)
			if err != nil {
				return out, err
			}
			out.Instances = choose(out.Instances, n, key)
		}
	case op.WantServices:
		w.keys = append(w.keys, state.OnTable(state.Services))
		if !w.allows(acl.ReadServices, space) {
			return op.Wanted{Missing: true, Denied: true}, nil
		}
		for n := range servicesByName(w.Read) {
			if n.key.Namespace == space {
				out.Services = append(out.Services, n.stub)
			}
		}
	default:
		return out, berth.Errorf(berth.Invalid, "Kind: must be variable, variables, service or services, got %q", berth.Clip(x.Kind, 64))
	}
	return out, nil
}

// plainStub describes a variable without its lock, so that a lock that is taken
// is no news.
func plainStub(v *berth.SealedVariable) op.VariableStub {
	return op.VariableStub{Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, ModifyIndex: v.ModifyIndex, CreateTime: v.CreateTime, ModifyTime: v.ModifyTime}
}
