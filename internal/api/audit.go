package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/audit"
	"berth/internal/decode"
	"berth/op"
)

// Audit is the audit log of an agent: what it says of each request over HTTP, and
// of those that agents pass on to a server.
type Audit struct {
	Log *audit.Log
	// Enforced refuses requests of which nothing can be written, and withholds
	// answers of which nothing can.
	Enforced bool
	Node     string // name of this agent
	IP       string // of this agent
	Logger   *slog.Logger

	logged atomic.Int64 // when a failure was last logged, ns since 1970
}

// fail is called when an entry cannot be written. It returns the error that
// refuses the request, or nil.
func (a *Audit) fail(err error) error {
	if err == nil {
		return nil
	}
	if now, last := time.Now().UnixNano(), a.logged.Load(); now-last >= int64(refusalPause) && a.logged.CompareAndSwap(last, now) {
		a.Logger.Error("an entry of the audit log cannot be written; more failures are not logged for a minute", "enforced", a.Enforced, "error", err)
	}
	if !a.Enforced {
		return nil
	}
	return berth.Errorf(berth.Unavailable, "the audit log cannot be written, and this agent answers no request that is not in it: %w", err)
}

// audited is one request and what the audit log says of it.
type audited struct {
	server   *Server
	began    time.Time
	p        audit.Payload
	received bool // the first entry was written
	complete bool // the second was
	stream   bool // the second is written when the stream has ended
	kind     string
}

type auditKey struct{}

// auditOf returns the record of a request, nil without an audit log.
func auditOf(ctx context.Context) *audited {
	a, _ := ctx.Value(auditKey{}).(*audited)
	return a
}

// auditing begins the record of a request over HTTP. Without an audit log it
// returns its arguments.
func (s *Server) auditing(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *audited) {
	if s.Audit == nil {
		return w, r, nil
	}
	a := s.newAudited(r.Method, r.URL.Path, r.RemoteAddr)
	a.p.Request.Meta.UserAgent = berth.Clip(r.UserAgent(), 200)
	a.p.Request.Meta.Websocket = strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	a.p.Request.Namespace.ID = berth.Clip(namespace(r), 128)
	return &auditWriter{ResponseWriter: w, a: a}, r.WithContext(context.WithValue(r.Context(), auditKey{}, a)), a
}

// newAudited returns the record of a request.
func (s *Server) newAudited(method, path, remoteAddr string) *audited {
	var id berth.ID[audited]
	s.Rand.Read(id[:])
	return &audited{server: s, began: time.Now(), p: audit.Payload{ID: id.String(), Request: audit.Request{
		ID: id.String(), Operation: berth.Clip(method, 16), Endpoint: berth.Clip(path, 512), Meta: audit.Meta{RemoteAddress: remoteAddr},
		Node: audit.NodeMeta{IP: s.Audit.IP, Name: s.Audit.Node},
	}}}
}

// receive writes the first entry. info and in are nil if the request is none of
// an operation. The error refuses the request.
func (a *audited) receive(ctx context.Context, info *op.Info, in any, token string) error {
	if a == nil || a.received {
		return nil
	}
	a.received = true
	a.p.Stage = audit.Received
	a.p.Auth = a.server.auditAuth(ctx, token, a.p.Request.Meta.RemoteAddress)
	if info != nil {
		a.p.Request.Route = info.Name
		a.describe(info, in)
	}
	return a.server.Audit.fail(a.server.Audit.Log.Write(a.p))
}

// auditAuth is who made a request.
func (s *Server) auditAuth(ctx context.Context, token, remoteAddr string) audit.Auth {
	id, err := s.whois(ctx, token, remoteAddr)
	switch {
	case berth.KindOf(err) == berth.Denied:
		return audit.Auth{Type: invalidCaller}
	case err != nil: // no server can be asked
		return audit.Auth{Type: "unknown"}
	}
	return audit.Auth{AccessorID: id.AccessorID, Name: id.Name, Type: id.Type, Global: id.Global, CreateTime: id.CreateTime}
}

// named are the fields of inputs that say what a request is about. None holds a
// secret.
var auditNames = []string{
	"JobID", "AllocID", "NodeID", "EvalID", "DeploymentID", "Task", "TaskName", "TaskGroup", "Group", "PolicyName", "Accessor", "AccessorID", "RoleID", "RoleName",
	"MethodName", "RuleID", "VarPath", "Path", "Namespace", "PoolName", "QuotaName", "ServiceName", "ServiceID", "VolumeID", "PluginID", "Key", "KeyID", "Name", "ID", "Action", "Type",
}

// describe notes what a request is about.
func (a *audited) describe(info *op.Info, in any) {
	q := &a.p.Request
	if o := queryOf(in); o != nil && o.Namespace != "" {
		q.Namespace.ID = berth.Clip(o.Namespace, 128)
	} else if o := writeOf(in); o != nil && o.Namespace != "" {
		q.Namespace.ID = berth.Clip(o.Namespace, 128)
	}
	note := func(name, value string) {
		if value == "" {
			return
		}
		if q.Object == nil {
			q.Object = map[string]string{}
		}
		q.Object[name] = berth.Clip(value, 256)
	}
	v := reflect.ValueOf(in).Elem()
	if v.Kind() != reflect.Struct {
		return
	}
	for _, name := range auditNames {
		f, ok := v.Type().FieldByName(name)
		if !ok || len(f.Index) != 1 {
			continue
		}
		switch x := v.Field(f.Index[0]); {
		case x.Kind() == reflect.String:
			note(name, x.String())
		case x.IsZero():
		case x.Kind() == reflect.Array:
			if id, ok := x.Interface().(fmt.Stringer); ok {
				note(name, id.String())
			}
		}
	}
	if x, ok := in.(*op.ExecTask); ok {
		if words, err := x.Words(); err == nil {
			note("Command", words[0]) // its arguments may hold secrets
		}
	}
	if f := v.FieldByName("Job"); f.IsValid() {
		if j, ok := f.Interface().(decode.RawTree); ok {
			id, _ := j["ID"].(string)
			note("JobID", id)
			if space, _ := j["Namespace"].(string); space != "" {
				q.Namespace.ID = berth.Clip(space, 128)
			}
		}
	}
	if q.Namespace.ID == "" && info.Space != acl.NoSpace {
		q.Namespace.ID = berth.DefaultNamespace
	}
}

// done writes the second entry. The error withholds the answer.
func (a *audited) done(status int) error {
	if a == nil || a.complete {
		return nil
	}
	a.complete = true
	p := a.p
	p.Stage = audit.Complete
	p.Response = &audit.Response{StatusCode: status, Error: a.kind, Millis: float64(time.Since(a.began).Microseconds()) / 1000}
	return a.server.Audit.fail(a.server.Audit.Log.Write(p))
}

// auditWriter writes the second entry before the answer, and withholds the answer
// if that fails.
type auditWriter struct {
	http.ResponseWriter
	a        *audited
	status   int
	withheld bool
}

// WriteHeader implements http.ResponseWriter.
func (w *auditWriter) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status = status
	if w.a.stream {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	err := w.a.done(status)
	if err == nil {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	// What was done stays done; the caller is told that it is not known.
	w.withheld = true
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	op.SetError(h, err)
	w.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w.ResponseWriter, "%v. The request may have taken effect", err)
}

// Write implements http.ResponseWriter.
func (w *auditWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.withheld {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *auditWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finish writes what is missing at the end of a request: the second entry of a
// stream, and of a request whose caller left.
func (a *audited) finish(w http.ResponseWriter, r *http.Request) {
	if a == nil {
		return
	}
	if !a.received { // nothing looked at it
		_ = a.receive(r.Context(), nil, nil, token(r))
	}
	status := 0 // nobody was answered
	if x, ok := w.(*auditWriter); ok {
		status = x.status
	}
	if status == 0 && a.p.Request.Meta.Websocket && a.kind == "" && a.stream {
		status = http.StatusSwitchingProtocols
	}
	_ = a.done(status)
}

// failed notes the kind of the error that a request ends with.
func (a *audited) failed(err error) {
	if a != nil && err != nil {
		a.kind = string(berth.PublicKind(err))
		if a.kind == "" {
			a.kind = "internal"
		}
	}
}

// unaudited refuses a request before it reaches an operation, and keeps that in
// the audit log.
func (s *Server) unaudited(w http.ResponseWriter, r *http.Request, err error) {
	w, r, a := s.auditing(w, r)
	defer func() { a.finish(w, r) }()
	if refused := a.receive(r.Context(), nil, nil, token(r)); refused != nil {
		err = refused
	}
	a.failed(err)
	s.fail(w, err)
}

// auditForwarded begins the record of what an agent passes on, and returns what
// ends it. The error refuses the request.
func (s *Server) auditForwarded(ctx context.Context, x *operation, who Caller, in any, agent bool) (func(error), error) {
	if s.Audit == nil || !agent {
		return func(error) {}, nil
	}
	a := s.newAudited(x.info.Method, requestPath(x.info, in), who.Remote)
	if err := a.receive(ctx, x.info, in, who.Token); err != nil {
		return nil, err
	}
	return func(err error) {
		a.failed(err)
		code := http.StatusOK
		if err != nil {
			code = status[berth.KindOf(err)]
		}
		_ = a.done(code)
	}, nil
}

// requestPath is the path that a request for an input would have.
func requestPath(info *op.Info, in any) string {
	v := reflect.ValueOf(in).Elem()
	parts := strings.Split(info.Path, "/")
	for i, p := range parts {
		if !named(p) || v.Kind() != reflect.Struct {
			continue
		}
		if f := v.FieldByName(strings.Trim(p, "{}")); f.IsValid() && f.Kind() == reflect.String {
			parts[i] = url.PathEscape(f.String())
		}
	}
	return strings.Join(parts, "/")
}
