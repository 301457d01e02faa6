package api

import (
	"time"

	"berth"
	"berth/internal/audit"
	"berth/op"
)

// auditPage is how many entries an answer has if the caller does not say.
const auditPage = 100

// auditLog registers the reading of this agent's audit log.
func (s *Server) auditLog() {
	read(s, op.ReadAudit, func(r *Read, in *op.AuditQuery) ([]op.AuditEntry, error) {
		switch {
		case s.Audit == nil:
			return nil, berth.Errorf(berth.NotFound, "this agent writes no audit log; audit { enabled = true } in its configuration turns it on")
		case in.Stage != "" && in.Stage != op.AuditAnswered && in.Stage != op.AuditReceived && in.Stage != op.AuditBoth:
			return nil, berth.Errorf(berth.Invalid, "stage: must be %s, %s or %s, got %q", op.AuditAnswered, op.AuditReceived, op.AuditBoth, berth.Clip(in.Stage, 64))
		case in.Filter != "" || in.Prefix != "" || in.Reverse:
			return nil, berth.Errorf(berth.Invalid, "filter, prefix, reverse: the audit log is filtered by since, until, user, operation and stage")
		}
		w := wantedAudit{AuditQuery: in}
		var ps berth.Problems
		w.since, w.until = auditTime(&ps, "since", in.Since), auditTime(&ps, "until", in.Until)
		if err := ps.Err(); err != nil {
			return nil, err
		}
		return readAudit(r, s.Audit.Log, &w)
	})
}

// wantedAudit is what is asked for.
type wantedAudit struct {
	*op.AuditQuery
	since, until time.Time // zero: any
}

// auditTime reads a time; "" is the zero time.
func auditTime(ps *berth.Problems, name, text string) (t time.Time) {
	if text == "" {
		return t
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		ps.Addf(name, "must be a time such as 2026-01-02T15:04:05Z, got %q", berth.Clip(text, 64))
	}
	return t
}

// readAudit returns a page of the log: the newest entries that are asked for.
// Lines that cannot be trusted are always among them.
func readAudit(r *Read, l *audit.Log, in *wantedAudit) ([]op.AuditEntry, error) {
	out, most := []op.AuditEntry{}, auditPage
	if r.Query.PerPage > 0 {
		most = int(min(r.Query.PerPage, 1000))
	}
	over := false
	next, err := l.Newest(r.Query.NextToken, func(x audit.Line) bool {
		switch {
		case x.Problem == "" && x.Entry.CreatedAt.Before(in.since):
			over = true
			return false
		case x.Problem == "" && !in.has(&x.Entry):
			return true
		case len(out) == most:
			return false
		}
		out = append(out, auditEntry(&x))
		return true
	})
	if !over {
		r.next = next
	}
	return out, err
}

// has reports whether an entry is one that is asked for.
func (in *wantedAudit) has(e *audit.Entry) bool {
	p := &e.Payload
	switch {
	case !in.until.IsZero() && !e.CreatedAt.Before(in.until):
		return false
	case in.User != "" && in.User != p.Auth.Name && in.User != p.Auth.AccessorID:
		return false
	case in.Stage == op.AuditReceived && p.Stage != audit.Received, (in.Stage == "" || in.Stage == op.AuditAnswered) && p.Stage != audit.Complete:
		return false
	}
	return e.Matches(in.Operation)
}

// auditEntry is the view of a line.
func auditEntry(x *audit.Line) op.AuditEntry {
	p := &x.Entry.Payload
	q := &p.Request
	v := op.AuditEntry{
		Line: x.Seq, Time: x.Entry.CreatedAt, Stage: op.AuditReceived, RequestID: p.ID, User: p.Auth.Name, AccessorID: p.Auth.AccessorID, Type: p.Auth.Type,
		Method: q.Operation, Path: q.Endpoint, Operation: q.Route, Object: q.Object, Namespace: q.Namespace.ID,
		Address: q.Meta.RemoteAddress, UserAgent: q.Meta.UserAgent, Agent: q.Node.Name, Problem: x.Problem,
	}
	if p.Stage == audit.Complete {
		v.Stage = op.AuditAnswered
	}
	if a := p.Response; a != nil {
		v.Status, v.Error, v.Millis = a.StatusCode, a.Error, a.Millis
	}
	return v
}
