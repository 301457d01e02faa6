package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"berth"
	"berth/internal/acl"
	"berth/internal/events"
	"berth/internal/state"
	"berth/op"
)

// heartbeat is the longest time without a message on an event stream.
const heartbeat = 10 * time.Second

// events serves the stream of what changes.
func (s *Server) events() { addStream(s, op.StreamEvents, s.streamEvents) }

// streamEvents streams events from the caller's index on. A subscription that
// begins before the oldest event that is kept is told of the gap, and ends.
func (s *Server) streamEvents(ctx context.Context, who Caller, in *op.EventQuery, x *exchange) error {
	q := in.Opts()
	if err := s.admit(ctx, op.StreamEvents.Info, who, q); err != nil {
		return err
	}
	// Whatever can be refused is refused before the stream begins: later, no
	// status can tell.
	filter, err := events.ParseFilter(in.Topics, q.Namespace)
	if err != nil {
		return err
	}
	every, err := everyOf(in)
	if err != nil {
		return err
	}
	rights := rights{s, who, nil}
	if err := rights.subscribe(filter, q.Namespace); err != nil {
		return err
	}
	if s.Events == nil {
		return berth.Errorf(berth.Unavailable, "this agent has no event stream")
	}
	// A stream counts as a query that waits, for as long as it lasts.
	if err := s.waiting.enter(who); err != nil {
		return err
	}
	defer s.waiting.exit(who)
	// A gap is reported within the stream, where clients look for it.
	reader, err := s.Events.From(q.MinQueryIndex)
	if err == nil {
		defer reader.Close()
	} else if _, gap := errors.AsType[*events.Gap](err); !gap {
		return berth.Errorf(berth.Unavailable, "%w", err)
	}
	out := newEventWriter(x.w)
	out.bare = in.Payload != nil && !*in.Payload
	if x.view.Head {
		return nil
	}
	if err != nil {
		out.end(err)
		return nil
	}
	ctx, _, stop := s.while(ctx, op.StreamEvents.Info, func() error { return rights.subscribe(filter, q.Namespace) })
	defer stop()
	if every > 0 {
		out.digest(ctx, reader, filter, rights, every)
	} else {
		out.run(ctx, reader, filter, rights)
	}
	return nil
}

// rights are what a caller may see of events. They are checked again for every
// batch, so that a stream does not outlive its caller's rights.
type rights struct {
	server *Server
	caller Caller
	known  map[right]bool // what was checked for the present batch
}

// right is one that events need; it is checked once for a batch.
type right struct {
	need      acl.Capability // in the namespace, "" for rows that have none
	namespace string         // or the place of a variable
}

// subscribe checks a new subscription. The caller needs a right to each topic
// that it names; where topics or namespaces are left open, a right to any of
// them.
func (x *rights) subscribe(f *events.Filter, namespace string) error {
	if f.Open() {
		if err := x.anywhere(op.StreamEvents.Need, namespace); err != nil {
			return err
		}
	}
	for _, t := range f.Topics() {
		check := x.anywhere
		if !t.Namespaced() {
			check = func(need acl.Capability, _ string) error { return x.server.Authorize(x.caller, need, "") }
		}
		if err := check(needOf(t), namespace); err != nil {
			return err
		}
	}
	return nil
}

// anywhere asks for a right in a namespace, or in any if that is the wildcard.
func (x *rights) anywhere(need acl.Capability, namespace string) error {
	if namespace != berth.AllNamespaces {
		return x.server.Authorize(x.caller, need, namespace)
	}
	var err error
	for ns := range x.server.Store.Snapshot().Namespaces() {
		if err = x.server.Authorize(x.caller, need, ns.Name); err == nil {
			return nil
		}
	}
	return err
}

// see reports whether the caller may see an event.
func (x *rights) see(e *events.Event) bool {
	r := right{needOf(e.Topic), e.Namespace()}
	if e.Topic == events.Variable {
		r.namespace = acl.Place(e.Namespace(), e.Key())
	}
	ok, known := x.known[r]
	if !known {
		ok = x.server.Authorize(x.caller, r.need, r.namespace) == nil
		if x.known == nil {
			x.known = map[right]bool{}
		}
		x.known[r] = ok
	}
	return ok
}

// needOf is the right to the events of a topic.
func needOf(t events.Topic) acl.Capability {
	switch t {
	case events.Node:
		return acl.NodeRead
	case events.NodePool:
		return acl.NodePoolRead
	case events.HostVolume:
		return acl.HostVolumeRead
	case events.CSIVolume:
		return acl.CSIReadVolume
	case events.CSIPlugin:
		return acl.PluginRead
	case events.ACLToken, events.ACLPolicy, events.ACLRole, events.ACLAuthMethod, events.ACLBindingRule:
		return acl.Management
	case events.Variable:
		return acl.VariablesList
	case events.Operator:
		return acl.OperatorRead
	}
	return op.StreamEvents.Need
}

// eventWriter writes the stream. The caller must take each piece in time; what
// it is slow to take is not held here, beyond one buffer.
type eventWriter struct {
	w     http.ResponseWriter
	flush *http.ResponseController // of w
	buf   *bufio.Writer            // writes to the eventWriter itself, which sets the deadlines
	bare  bool                     // events go without their rows
	head  []byte                   // of the last one that did
}

// newEventWriter begins an answer.
func newEventWriter(w http.ResponseWriter) *eventWriter {
	o := &eventWriter{w: w, flush: http.NewResponseController(w)}
	o.buf = bufio.NewWriterSize(o, 16<<10)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	o.send() // so that the client learns that it is subscribed
	return o
}

// Write implements io.Writer.
func (o *eventWriter) Write(b []byte) (int, error) {
	o.flush.SetWriteDeadline(time.Now().Add(writeTimeout))
	return o.w.Write(b)
}

// send makes what was written reach the caller.
func (o *eventWriter) send() error {
	if err := o.buf.Flush(); err != nil {
		return err
	}
	o.flush.SetWriteDeadline(time.Now().Add(writeTimeout))
	return o.flush.Flush()
}

// run streams until the caller, the server or the reader ends.
func (o *eventWriter) run(ctx context.Context, reader *events.Reader, filter *events.Filter, rights rights) {
	beat := time.Now().Add(heartbeat)
	for {
		// A silent stream sends an empty object now and then, which shows both
		// ends that the connection lives.
		wait, cancel := context.WithDeadline(ctx, beat)
		sets, err := reader.Next(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			o.end(err)
			return
		}
		// Rights may have changed since the last batch.
		rights.known = nil
		said := false
		for _, set := range sets {
			wrote, err := o.set(set, reader, filter, &rights)
			if err != nil {
				return
			}
			said = said || wrote
		}
		if !said {
			if time.Now().Before(beat) {
				continue // nothing for this caller
			}
			o.buf.WriteString("{}\n")
		}
		if o.send() != nil {
			return
		}
		beat = time.Now().Add(heartbeat)
	}
}

// set writes what the caller wants and may see of a set, if there is any.
func (o *eventWriter) set(s *events.Set, reader *events.Reader, filter *events.Filter, rights *rights) (wrote bool, err error) {
	for i := range s.Events {
		e := &s.Events[i]
		if !filter.Matches(e) || !rights.see(e) {
			continue
		}
		text, err := o.encoding(s, e, reader, rights.server)
		if err != nil {
			rights.server.Logger.Error("an event could not be encoded", "topic", e.Topic, "key", e.Key(), "index", s.Index, "error", err)
			return wrote, err
		}
		if wrote {
			o.buf.WriteByte(',')
		} else {
			o.buf.WriteString(`{"Index":`)
			o.buf.WriteString(strconv.FormatUint(s.Index, 10))
			o.buf.WriteString(`,"Events":[`)
		}
		wrote = true
		if _, err := o.buf.Write(text); err != nil {
			return wrote, err
		}
	}
	if wrote {
		_, err = o.buf.WriteString("]}\n")
	}
	return wrote, err
}

// encoding returns an event as JSON. One with its row is shared with other readers,
// so it holds nothing that depends on the caller; without, it costs a hundredth and
// is not kept.
func (o *eventWriter) encoding(s *events.Set, e *events.Event, reader *events.Reader, server *Server) ([]byte, error) {
	if o.bare {
		o.head = appendHead(o.head[:0], eventHead(s, e))
		return o.head, nil
	}
	return reader.Encoded(s, e, server.encodeEvent)
}

// eventHead says what an event changed.
func eventHead(s *events.Set, e *events.Event) op.EventHead {
	return op.EventHead{Topic: string(e.Topic), Type: e.Type, Key: e.Key(), Namespace: e.Namespace(), FilterKeys: e.FilterKeys(), Index: s.Index}
}

// appendHead appends the JSON of an event without its row: thousands a second go to
// each open page of the web UI.
func appendHead(b []byte, h op.EventHead) []byte {
	text := func(name, s string) {
		b = append(append(b, name...), '"')
		if plain(s) {
			b = append(b, s...)
		} else {
			quoted, _ := json.Marshal(s) // of a string it cannot fail
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		b = append(b, '"')
	}
	text(`{"Topic":`, h.Topic)
	text(`,"Type":`, h.Type)
	text(`,"Key":`, h.Key)
	text(`,"Namespace":`, h.Namespace)
	b = append(b, `,"FilterKeys":[`...)
	for i, k := range h.FilterKeys {
		text([]string{"", ","}[min(i, 1)], k)
	}
	b = append(b, `],"Index":`...)
	return append(strconv.AppendUint(b, h.Index, 10), '}')
}

// plain reports whether a text is the same within quotes in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// end writes why the stream ends, if the caller must know: that something is
// missing. A server that stops, or a caller that left, is the end and no more.
func (o *eventWriter) end(err error) {
	gap, ok := errors.AsType[*events.Gap](err)
	if !ok {
		return
	}
	json.NewEncoder(o.buf).Encode(op.Events{Error: gap.Error(), Err: gap.Error(), Oldest: gap.Oldest})
	o.send()
}

// encodeEvent returns an event as JSON.
func (s *Server) encodeEvent(set *events.Set, e *events.Event) ([]byte, error) {
	v := op.Event{EventHead: eventHead(set, e), Payload: eventPayload(s.Store.Snapshot(), e)}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// eventPayload shows the row of an event. What stands beside the row (the name
// of its node, why it was placed there) is taken from a newer state: it does
// not change while the row is there.
func eventPayload(snap *state.Snapshot, e *events.Event) op.EventPayload {
	p := op.EventPayload{Deleted: e.Deleted}
	if e.Topic == events.Resource {
		p.Resource = resourceEvent(e)
		return p
	}
	switch row := e.Row.(type) {
	case *berth.Job:
		v := op.Job{Job: row, UID: row.UID.Text('j'), Status: berth.JobDead}
		if e.Summary != nil {
			v = jobView(row, e.Summary)
		}
		p.Job = &v
	case *berth.Eval:
		// The event shows the row only, not the evaluation's current place in the
		// leader's queues.
		v := (&Read{Snapshot: snap}).evalView(row)
		p.Evaluation = &v
	case *berth.Alloc:
		v := allocView(snap, row)
		v.Job = nil
		p.Allocation = &v
	case *berth.Deployment:
		p.Deployment = op.ShowDeployment(row)
	case *berth.Node:
		v := op.ShowNode(withoutDynamic(row))
		p.Node = &v
	case *berth.ServiceRegistration:
		v := serviceView(row)
		p.Service = &v
	case *berth.HostVolume:
		p.Volume = row
	case *berth.CSIVolume:
		v := viewOfCSI(snap, row)
		p.CSIVolume = &v
	case *state.CSIClaim:
		if row := snap.CSIVolume(row.Namespace, row.VolumeID); row != nil {
			v := viewOfCSI(snap, row)
			p.CSIVolume = &v
		}
	case *state.CSIPlugin:
		v := stubOfPlugin(row)
		p.Plugin = &v
	case *berth.NodePool:
		p.NodePool = row // its duration is a number here: the Go client of Nomad reads no text in events
	default:
		accessPayload(snap, e.Row, &p)
	}
	return p
}

// withoutDynamic returns a node without its dynamic host volumes: they belong to
// namespaces that a reader of nodes may not see. The topic HostVolume has them.
func withoutDynamic(n *berth.Node) *berth.Node {
	own := *n
	own.HostVolumes = maps.Clone(n.HostVolumes)
	maps.DeleteFunc(own.HostVolumes, func(_ string, info berth.HostVolumeInfo) bool { return info.ID != "" })
	return &own
}

// accessPayload shows a row of access control, a variable or the scheduler
// configuration, without secrets.
func accessPayload(snap *state.Snapshot, row any, p *op.EventPayload) {
	switch row := row.(type) {
	case *berth.ACLToken:
		v := tokenView(snap, row)
		p.ACLToken = &v
	case *berth.ACLPolicy:
		p.ACLPolicy = row
	case *berth.ACLRole:
		p.ACLRole = row
	case *berth.ACLAuthMethod:
		v := authMethodView(snap, row)
		p.ACLAuthMethod = &v
	case *berth.ACLBindingRule:
		v := bindingRuleView(row)
		p.ACLBindingRule = &v
	case *berth.SealedVariable:
		p.Variable = &op.VariableStub{
			Namespace: row.Namespace, Path: row.Path, CreateIndex: row.CreateIndex, ModifyIndex: row.ModifyIndex, CreateTime: row.CreateTime, ModifyTime: row.ModifyTime,
			Lock: lockView(row.Lock, false),
		}
	case *berth.SchedulerConfig:
		p.SchedulerConfig = row
	}
}

// resourceEvent shows an object as it was when the event came about.
func resourceEvent(e *events.Event) *op.ResourceEvent {
	v := &op.ResourceEvent{Cause: e.Cause(), Deleting: e.Deletes()}
	v.Kind, v.Name, v.UID, v.OwnerUID = e.Object()
	submission := e.Stream
	switch row := e.Row.(type) {
	case *berth.Object:
		v.JobID, v.Generation = row.Job.ID, row.Generation
		if row.PE != nil {
			v.LaunchCount, v.Connectivity = row.PE.Launch, row.PE.Connectivity
		}
	case *berth.StreamJob:
		v.JobID, submission = row.Key.ID, row
	case *berth.Job:
		v.JobID = row.ID
	}
	if submission != nil {
		v.Generation, v.Phase = submission.Generation, submission.Phase
	}
	return v
}
