package api

import (
	"cmp"
	"hash/fnv"
	"iter"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/state"
	"berth/op"
)

// services registers the operations on service registrations and their checks.
func (s *Server) services() {
	readList(s, op.ListServices, listServices)
	read(s, op.ReadService, readService)
	read(s, op.AllocServices, allocServices)
	read(s, op.JobServices, jobServices)
	read(s, op.ServiceResolve, resolveService)
	write(s, op.RemoveService, removeService)
	write(s, op.ServiceUpsert, upsertServices)
	write(s, op.ServiceRemove, removeOwnService)
	s.checks()
}

// named is a service in the list, before it is shown in its namespace.
type namedService struct {
	key  berth.ServiceKey
	stub op.ServiceStub
}

// listServices shows the services by namespace. A page counts services.
func listServices(r *Read, _ *op.Query) ([]op.ServiceList, error) {
	r.Table(state.Services)
	sorted := byID(func(n *namedService) string { return n.key.Namespace + "." + n.key.Name })
	rows := scanned(r.Query, servicesByName(r), sorted)
	keep := func(n *namedService) bool {
		return r.visible(op.ListServices.Need, n.key.Namespace) && strings.HasPrefix(n.key.Name, r.Query.Prefix)
	}
	type shown struct {
		Namespace string
		op.ServiceStub
	}
	list, err := page(r, rows, keep, func(n *namedService) shown { return shown{n.key.Namespace, n.stub} })
	if err != nil {
		return nil, err
	}
	out := []op.ServiceList{}
	for _, v := range list {
		if n := len(out); n == 0 || out[n-1].Namespace != v.Namespace {
			out = append(out, op.ServiceList{Namespace: v.Namespace})
		}
		last := &out[len(out)-1]
		last.Services = append(last.Services, v.ServiceStub)
	}
	return out, nil
}

// servicesByName gathers the registrations of each service.
func servicesByName(r *Read) iter.Seq[*namedService] {
	return func(yield func(*namedService) bool) {
		var now *namedService
		for reg := range r.Services() {
			if now == nil || now.key != reg.Key() {
				if now != nil && !yield(now) {
					return
				}
				now = &namedService{reg.Key(), op.ServiceStub{ServiceName: reg.ServiceName, Tags: []string{}}}
			}
			for _, t := range reg.Tags {
				if i, ok := slices.BinarySearch(now.stub.Tags, t); !ok {
					now.stub.Tags = slices.Insert(now.stub.Tags, i, t)
				}
			}
		}
		if now != nil {
			yield(now)
		}
	}
}

// serviceView shows a registration. Its tags are never null, which clients rely
// on.
func serviceView(r *berth.ServiceRegistration) berth.ServiceRegistration {
	v := *r
	if v.Tags == nil {
		v.Tags = []string{}
	}
	return v
}

// serviceID returns the ID of a registration, as the order of a list needs it.
func serviceID(r *berth.ServiceRegistration) string { return r.ID }

// readService returns the instances of a service, or some of them that are
// chosen by a key.
func readService(r *Read, in *op.ServiceQuery) ([]berth.ServiceRegistration, error) {
	k := berth.ServiceKey{Namespace: r.Space(), Name: in.ServiceName}
	rows := r.ServicesNamed(k)
	if k.Namespace == berth.AllNamespaces {
		r.Table(state.Services)
		rows = r.Services()
	} else {
		r.At(r.LastChange(state.Services), state.OnService(k))
	}
	keep := func(reg *berth.ServiceRegistration) bool {
		return reg.ServiceName == in.ServiceName && r.visible(op.ReadService.Need, reg.Namespace)
	}
	if in.Choose != "" {
		n, key, err := parseChoose(in.Choose)
		if err != nil {
			return nil, err
		}
		q := *r.Query // of all that are there, not of a page of them
		q.PerPage, q.NextToken, q.Reverse = 0, "", false
		whole := *r
		whole.Query = &q
		all, err := page(&whole, scanned(&q, rows, byID(serviceID)), keep, serviceView)
		return choose(all, n, key), err
	}
	l := scanned(r.Query, rows, byID(func(reg *berth.ServiceRegistration) string { return reg.Namespace + "." + reg.ID }))
	return page(r, l, keep, serviceView)
}

// parseChoose parses a choice, such as 2|web-1: how many instances, at least 1,
// and the key that they are chosen by.
func parseChoose(text string) (n int, key string, err error) {
	number, key, ok := strings.Cut(text, "|")
	if n, err = strconv.Atoi(number); !ok || err != nil || n < 1 || key == "" {
		return 0, "", berth.Errorf(berth.Invalid, "choose: must be <number>|<key> such as 2|%[2]s, got %[1]q", berth.Clip(text, 64), "web-1")
	}
	return n, key, nil
}

// choose picks n instances for a key by rendezvous hashing: the same key gets
// the same ones while they are there, and when one goes or comes, no key loses
// another.
func choose(all []berth.ServiceRegistration, n int, key string) []berth.ServiceRegistration {
	weight := func(r *berth.ServiceRegistration) uint64 {
		h := fnv.New64a()
		h.Write([]byte(r.ID))
		h.Write([]byte{0})
		h.Write([]byte(key))
		x := h.Sum64() // its last bytes barely reach the highest bits, by which is sorted
		x ^= x >> 33
		x *= 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	slices.SortFunc(all, func(a, b berth.ServiceRegistration) int {
		return cmp.Or(cmp.Compare(weight(&b), weight(&a)), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(n, len(all))]
}

// inOrder returns registrations in order of namespace, service and ID.
func inOrder(rows iter.Seq[*berth.ServiceRegistration]) []berth.ServiceRegistration {
	out := []berth.ServiceRegistration{}
	for reg := range rows {
		out = append(out, serviceView(reg))
	}
	slices.SortFunc(out, func(a, b berth.ServiceRegistration) int {
		return cmp.Or(cmp.Compare(a.ServiceName, b.ServiceName), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// allocServices returns the registrations of an allocation.
func allocServices(r *Read, in *op.AllocRef) ([]berth.ServiceRegistration, error) {
	a, err := r.alloc(in.AllocID, op.AllocServices.Need)
	if err != nil {
		return nil, err
	}
	r.At(r.LastChange(state.Services), state.OnServicesOf(a.ID))
	return inOrder(r.ServicesOf(a.ID)), nil
}

// jobServices returns the registrations of a job's allocations that have not
// ended.
func jobServices(r *Read, in *op.JobServicesQuery) ([]berth.ServiceRegistration, error) {
	j, _, err := r.job(string(in.JobID))
	if err != nil {
		return nil, err
	}
	k := j.Key()
	r.Table(state.Services)
	return inOrder(func(yield func(*berth.ServiceRegistration) bool) {
		for a := range r.AllocsOf(k) {
			if a.Ended() {
				continue
			}
			for reg := range r.ServicesOf(a.ID) {
				if !yield(reg) {
					return
				}
			}
		}
	}), nil
}

// removeService decides that a user removes one registration of a service in
// the request's namespace.
func removeService(w *Write, in *op.DeleteService) (Change[op.WriteAnswer], error) {
	return propose[op.WriteAnswer](&state.DeleteServices{Namespace: w.Space(), Name: in.ServiceName, IDs: []string{in.ServiceID}}, nil), nil
}

// upsertServices decides what an agent registers. All registrations must be of
// its own node, which Apply checks.
func upsertServices(w *Write, in *op.UpsertServices) (ch Change[op.WriteAnswer], err error) {
	if len(in.Services) == 0 || in.Services[0] == nil {
		return ch, nil
	}
	n, err := prove(w.Snapshot, in.Services[0].NodeID, w.Options.AuthToken)
	if err != nil {
		return ch, err
	}
	for _, r := range in.Services { // Apply checks them as well; this keeps bad ones out of the log
		if err := state.CheckService(r); err != nil {
			return ch, err
		}
	}
	list := in.Services
	if !w.KeepsHealth() { // a server of an earlier build does not know it
		list = nil
		for _, r := range in.Services {
			known := *r
			known.Unhealthy = false
			list = append(list, &known)
		}
	}
	return propose[op.WriteAnswer](&state.UpsertServices{Node: n.ID, Services: list}, nil), nil
}

// resolveService answers the DNS of a node with the instances of a service.
// Names of DNS have no case.
func resolveService(r *Read, in *op.ServiceLookup) (op.ServiceInstances, error) {
	var out op.ServiceInstances
	if _, err := prove(r.Snapshot, in.NodeID, in.AuthToken); err != nil {
		return out, err
	}
	k := berth.ServiceKey{Namespace: in.Space, Name: in.ServiceName}
	r.At(r.LastChange(state.Services), state.OnService(k))
	r.Ready()
	for reg := range r.ServicesNamed(k) {
		out.Services = append(out.Services, *reg)
	}
	if len(out.Services) > 0 {
		return out, nil
	}
	for reg := range r.Services() {
		if strings.EqualFold(reg.ServiceName, in.ServiceName) && strings.EqualFold(reg.Namespace, in.Space) {
			out.Services = append(out.Services, *reg)
		}
	}
	return out, nil
}

// removeOwnService removes a registration for the agent of its node. The call
// does not name the node, so the registration says which one it is.
func removeOwnService(w *Write, in *op.DeleteServiceByID) (ch Change[op.WriteAnswer], err error) {
	r := w.Service(in.ID)
	if r == nil {
		return ch, nil // already removed, or its allocation has ended
	}
	n, err := prove(w.Snapshot, r.NodeID, w.Options.AuthToken)
	if err != nil {
		return ch, err
	}
	return propose[op.WriteAnswer](&state.DeleteServices{Node: n.ID, IDs: []string{in.ID}}, nil), nil
}
