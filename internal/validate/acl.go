package validate

import (
	"unicode/utf8"

	"berth"
	"berth/internal/pattern"
)

// aclName is the form of the names of policies and roles.
var aclName = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// maxACLLinks is how many policies and roles a token or role has at most.
const maxACLLinks = 100

// checkACL notes what is wrong with a name and a description.
func checkACL(ps *berth.Problems, name, description string) {
	if !aclName.MatchString(name) {
		ps.Addf("Name", "%.150q is not a valid name: want letters, digits, - and _, 1 to 128", name)
	}
	if len(description) > 256 || !utf8.ValidString(description) {
		ps.Addf("Description", "is not text of at most 256 bytes")
	}
}

// ACLPolicy returns every problem of the policy but those of its rules.
func ACLPolicy(p *berth.ACLPolicy) error {
	var ps berth.Problems
	checkACL(&ps, p.Name, p.Description)
	if p.JobACL != nil {
		checkJobACL(&ps, p.JobACL)
	}
	return ps.Err()
}

// ACLRole returns every problem of the role.
func ACLRole(r *berth.ACLRole) error {
	var ps berth.Problems
	checkACL(&ps, r.Name, r.Description)
	if n := len(r.Policies); n == 0 || n > maxACLLinks {
		ps.Addf("Policies", "must name 1 to %d policies, got %d", maxACLLinks, n)
	}
	return ps.Err()
}

// ACLToken returns every problem of the token.
func ACLToken(t *berth.ACLToken) error {
	var ps berth.Problems
	if len(t.Name) > 256 || !utf8.ValidString(t.Name) {
		ps.Addf("Name", "is not text of at most 256 bytes")
	}
	n := len(t.Policies) + len(t.Roles)
	switch t.Type {
	case berth.TokenManagement:
		if n > 0 {
			ps.Addf("Policies", "a management token has no policies or roles: it may do everything")
		}
	case berth.TokenClient:
		if n == 0 || n > maxACLLinks {
			ps.Addf("Policies", "a client token must have 1 to %d policies and roles, got %d", maxACLLinks, n)
		}
	default:
		ps.Addf("Type", "unknown type %q: want client or management", berth.Clip(t.Type, 64))
	}
	return ps.Err()
}

// checkJobACL notes what is wrong with the job that a policy is bound to.
func checkJobACL(ps *berth.Problems, j *berth.JobACL) {
	switch {
	case j.Namespace == "" || j.JobID == "":
		ps.Addf("JobACL", "must have a Namespace and a JobID")
	case j.Task != "" && j.Group == "":
		ps.Addf("JobACL", "Task must come with the Group that the task is in")
	}
	for _, f := range [...]struct{ name, text string }{{"Namespace", j.Namespace}, {"JobID", j.JobID}, {"Group", j.Group}, {"Task", j.Task}} {
		if len(f.text) > 1024 || !utf8.ValidString(f.text) {
			ps.Addf("JobACL."+f.name, "must be text of at most 1024 bytes")
		}
	}
}
