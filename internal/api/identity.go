package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"berth"
	"berth/internal/keyring"
	"berth/internal/state"
	"berth/internal/validate"
	"berth/op"
)

// identities registers the operation that agents get the identities of tasks
// with.
func (s *Server) identities() {
	add(s, op.Sign, func(ctx context.Context, who Caller, in *op.SignIdentities) (op.IdentitiesSigned, op.Meta, error) {
		if err := s.ensureRootKey(ctx); err != nil {
			return op.IdentitiesSigned{}, op.Meta{}, err
		}
		return answer(ctx, s, op.Sign.Info, who, &in.Query, func(r *Read) (op.IdentitiesSigned, error) { return s.signIdentities(r, in) })
	}).always = true // who leads makes the first key
}

// Claims are what an identity says, by the names that are documented for Nomad.
type Claims struct {
	Namespace string   `json:"nomad_namespace"`
	JobID     string   `json:"nomad_job_id"` // of a child, its parent's
	Task      string   `json:"nomad_task"`
	AllocID   string   `json:"nomad_allocation_id"`
	Subject   string   `json:"sub"`
	Audience  []string `json:"aud,omitempty"`
	Issuer    string   `json:"iss,omitempty"`
	IssuedAt  int64    `json:"iat"` // s since 1970, as the two below
	NotBefore int64    `json:"nbf"`
	Expires   int64    `json:"exp,omitempty"` // 0: valid as long as the allocation
	ID        string   `json:"jti"`

	Extra map[string]string `json:"extra_claims,omitempty"` // what the namespace defines, by name
}

// signIdentities signs identities for the agent of a node. Each must be of an
// allocation that the node has and that has not ended.
func (s *Server) signIdentities(r *Read, in *op.SignIdentities) (out op.IdentitiesSigned, err error) {
	r.At(r.Index)
	r.Ready()
	n, err := prove(r.Snapshot, in.NodeID, in.AuthToken)
	if err != nil {
		return out, err
	}
	if len(in.Identities) > op.MaxIdentities {
		return out, berth.Errorf(berth.Invalid, "Identities: must name at most %d, got %d", op.MaxIdentities, len(in.Identities))
	}
	key, err := s.signingKey(r.Snapshot)
	if err != nil {
		return out, err
	}
	for _, want := range in.Identities {
		a := r.Alloc(want.AllocID)
		if a == nil || a.NodeID != n.ID || a.Ended() {
			return out, berth.Errorf(berth.Denied, "Permission denied: allocation %s does not run on node %s", want.AllocID, n.ID)
		}
		signed, err := s.sign(key, r.Snapshot, n, a, want, time.Now())
		if err != nil {
			return out, err
		}
		out.SignedIdentities = append(out.SignedIdentities, signed)
	}
	return out, nil
}

// sign signs one identity of an allocation of a node.
func (s *Server) sign(key *keyring.Key, snap *state.Snapshot, n *berth.Node, a *berth.Alloc, want op.IdentityRequest, now time.Time) (out op.SignedIdentity, err error) {
	task := a.Group.Task(want.TaskName)
	if task == nil {
		return out, berth.Errorf(berth.NotFound, "allocation %s has no task %q", a.ID, berth.Clip(want.TaskName, 64))
	}
	spec := task.IdentityNamed(want.Identity)
	if spec == nil {
		return out, berth.Errorf(berth.NotFound, "task %q of allocation %s has no identity %q", task.Name, a.ID, berth.Clip(want.Identity, 64))
	}
	name := cmp.Or(spec.Name, berth.DefaultIdentity)
	var id berth.ID[Claims]
	rand.Read(id[:])
	job := workloadJob(a.Job)
	c := Claims{
		Namespace: a.Job.Namespace, JobID: job, Task: task.Name, AllocID: a.ID.String(), Audience: spec.Audience, Issuer: s.Issuer,
		Subject:  s.Region + ":" + a.Job.Namespace + ":" + job + ":" + a.Group.Name + ":" + task.Name + ":" + name,
		IssuedAt: now.Unix(), NotBefore: now.Unix(), ID: id.String(),
	}
	if len(c.Audience) == 0 && name == berth.DefaultIdentity {
		c.Audience = []string{DefaultAudience}
	}
	if spec.TTL > 0 {
		out.Expiration = now.Add(spec.TTL)
		c.Expires = out.Expiration.Unix()
	}
	if c.Extra, err = s.extraClaims(snap.Namespace(c.Namespace), n, a, task, spec); err != nil {
		return out, err
	}
	out.IdentityRequest = want
	out.JWT, err = key.Sign(c)
	return out, err
}

// extraClaims returns the extra claims of an identity: its namespace's, with
// values in place of their references. What changed in the namespace counts from
// the next signature on.
func (s *Server) extraClaims(space *berth.Namespace, n *berth.Node, a *berth.Alloc, t *berth.Task, w *berth.WorkloadIdentity) (out map[string]string, err error) {
	if space == nil {
		return nil, nil
	}
	value := func(name string) string {
		switch name {
		case "job.region":
			return s.Region
		case "group.name":
			return a.Group.Name
		case "task.name":
			return t.Name
		case "alloc.id":
			return a.ID.String()
		case "node.id":
			return n.ID.String()
		case "node.datacenter":
			return n.Datacenter
		case "node.pool":
			return n.NodePool
		case "node.class":
			return n.NodeClass
		}
		return validate.JobValue(a.Job, name)
	}
	out = validate.ClaimsOf(space, w)
	for name, text := range out {
		if out[name], err = validate.ExpandClaim(text, value); err != nil {
			return nil, berth.Errorf(berth.Invalid, "extra claim %q of namespace %q: %v", berth.Clip(name, 64), space.Name, err)
		}
	}
	return out, nil
}

// DefaultAudience is whom the default identity of a task is meant for: the
// cluster itself.
const DefaultAudience = "nomadproject.io"

// workloadJob returns the job ID of an identity. The children of a job share
// that of their parent, so that what is granted to it is granted to them.
func workloadJob(j *berth.Job) string { return string(cmp.Or(j.ParentID, j.ID)) }

// identified checks an identity that a caller shows, and returns its claims and
// allocation. It is valid until it expires, and no longer than the allocation
// lives. Only identities that are meant for the cluster count.
func identified(snap *state.Snapshot, token string, now time.Time) (c Claims, a *berth.Alloc, err error) {
	if err := keyring.Verify(token, snap.RootKey, &c); err != nil {
		return c, nil, err
	}
	bad := func(why string) (Claims, *berth.Alloc, error) {
		return c, nil, berth.Errorf(berth.Denied, "the identity token is not valid: %s", why)
	}
	switch at := now.Unix(); {
	case c.Expires != 0 && at > c.Expires:
		return bad("it has expired")
	case c.NotBefore > at+clockSkew:
		return bad("it is not valid yet")
	}
	meant := false
	for _, aud := range c.Audience {
		meant = meant || aud == DefaultAudience
	}
	if !meant {
		return bad("it is meant for somebody else")
	}
	id, err := berth.ParseID[berth.Alloc](c.AllocID)
	if err != nil {
		return bad("it names no allocation")
	}
	if a = snap.Alloc(id); a == nil || a.Ended() {
		return bad("its allocation has ended")
	}
	return c, a, nil
}
