package api

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/state"
)

// workload is a task that shows its identity as a token.
type workload struct {
	alloc    berth.AllocID
	name     string
	policies []string // that are bound to it
	expires  int64    // s since 1970; 0: it is valid as long as the allocation
	keys     uint64   // index of the last change of the root keys that it was checked with
}

// isJWT tells an identity from the secret of a token, which is a UUID.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

// mostWorkloads bounds the identities that are remembered.
const mostWorkloads = 10_000

// workloads remembers the holders of identities, since it takes time to check a
// signature. It is safe for concurrent use.
type workloads struct {
	mu    sync.Mutex
	known map[[32]byte]*holder
}

// holder returns the task that an identity is of. It is valid as long as the
// allocation runs.
func (w *workloads) holder(s *state.Snapshot, token string, now time.Time) (*holder, error) {
	hash := sha256.Sum256([]byte(token))
	w.mu.Lock()
	h := w.known[hash]
	w.mu.Unlock()
	if h == nil || h.version != s.ACLVersion() || h.task.keys != s.LastChange(state.RootKeys) {
		var err error
		if h, err = findWorkload(s, token, now); err != nil {
			return nil, errToken
		}
		w.mu.Lock()
		if w.known == nil || len(w.known) >= mostWorkloads {
			w.known = map[[32]byte]*holder{}
		}
		w.known[hash] = h
		w.mu.Unlock()
	}
	if h.task.expires != 0 && now.Unix() > h.task.expires {
		return nil, errToken
	}
	if a := s.Alloc(h.task.alloc); a == nil || a.Ended() {
		return nil, errToken
	}
	return h, nil
}

// findWorkload checks an identity and finds what its task may do: read its own
// variables and the services of its namespace, and what the policies grant that
// are bound to it. It never may do everything.
func findWorkload(s *state.Snapshot, token string, now time.Time) (*holder, error) {
	c, a, err := identified(s, token, now)
	if err != nil {
		return nil, err
	}
	if a.Group.Task(c.Task) == nil {
		return nil, errToken
	}
	task := &workload{
		alloc: a.ID, expires: c.Expires, keys: s.LastChange(state.RootKeys), name: workloadName(a, c.Task),
	}
	rights, policies := workloadRights(s, a, c.Task)
	task.policies = policies
	return &holder{version: s.ACLVersion(), rights: rights, task: task}, nil
}

// workloadName is what people call a task that shows its identity.
func workloadName(a *berth.Alloc, task string) string {
	return "Workload identity of " + strings.Join([]string{a.Job.Namespace, workloadJob(a.Job), a.Group.Name, task}, "/")
}

// workload returns the task that the caller is, nil if it is none.
func (r *Read) workload() *workload {
	if r.server == nil || r.server.guard == nil || !isJWT(r.Caller.Token) {
		return nil
	}
	h, err := r.server.guard.holder(r.Caller.Token)
	if err != nil {
		return nil
	}
	return h.task
}
