package api

import (
	"context"
	"errors"
	"strconv"
	"time"

	"berth"
	"berth/internal/events"
	"berth/op"
)

// everyMost is the longest time between two messages of a digest. It is below what
// readers take for a lost connection.
const everyMost = 10 * time.Second

// everyOf returns the time between messages that a reader asks for; 0 if it wants
// each event.
func everyOf(in *op.EventQuery) (time.Duration, error) {
	if in.Every == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(in.Every)
	if err != nil || d <= 0 || d > everyMost {
		return 0, berth.Errorf(berth.Invalid, "every: must be a duration above 0 and at most %s, such as 250ms, got %q", everyMost, berth.Clip(in.Every, 64))
	}
	if in.Payload == nil || *in.Payload {
		return 0, berth.Errorf(berth.Invalid, "every: needs payload=false, because events with rows are all sent")
	}
	return d, nil
}

// digest streams the newest event of each topic that the filter names, at most once
// in a time: an open page of the web UI then costs a busy cluster a few messages a
// second, and reads what it shows when it has the time.
func (o *eventWriter) digest(ctx context.Context, reader *events.Reader, filter *events.Filter, rights rights, every time.Duration) {
	for {
		newest := newest{filter: filter, last: make([]headline, filter.Size())}
		err := newest.wait(ctx, reader, &rights)
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			o.end(err)
			return
		}
		if o.write(&newest) != nil || o.send() != nil {
			return
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return
		}
	}
}

// newest collects the newest event of each topic of a filter.
type newest struct {
	filter *events.Filter
	last   []headline // by the number of the topic
	index  uint64     // of the newest event; 0 before the first
}

// headline is an event and the set that it came in; the zero value has neither.
type headline struct {
	set   *events.Set
	event *events.Event
}

// wait reads until there is an event that the caller wants and may see, and then
// whatever else there is. It returns context.DeadlineExceeded after the time of a
// heartbeat without one.
func (n *newest) wait(ctx context.Context, reader *events.Reader, rights *rights) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	for n.index == 0 {
		sets, err := reader.Next(ctx)
		if err != nil {
			return err
		}
		// Rights may have changed since the last batch.
		rights.known = nil
		n.add(sets, rights)
	}
	for {
		sets, err := reader.Ready()
		if err != nil || len(sets) == 0 {
			return err
		}
		n.add(sets, rights)
	}
}

// add takes the events of sets that the caller wants and may see.
func (n *newest) add(sets []*events.Set, rights *rights) {
	for _, set := range sets {
		for i := range set.Events {
			e := &set.Events[i]
			if !n.filter.Matches(e) || !rights.see(e) {
				continue
			}
			for c := range n.last {
				if n.filter.MatchesOf(c, e) {
					n.last[c] = headline{set, e}
				}
			}
			n.index = set.Index
		}
	}
}

// write writes what was collected, each event once; an empty object if there is
// nothing.
func (o *eventWriter) write(n *newest) error {
	if n.index == 0 {
		_, err := o.buf.WriteString("{}\n")
		return err
	}
	o.buf.WriteString(`{"Index":`)
	o.buf.WriteString(strconv.FormatUint(n.index, 10))
	comma := `,"Events":[`
	for i, l := range n.last {
		if l.event == nil || n.before(i) {
			continue
		}
		o.buf.WriteString(comma)
		comma = ","
		o.head = appendHead(o.head[:0], eventHead(l.set, l.event))
		if _, err := o.buf.Write(o.head); err != nil {
			return err
		}
	}
	_, err := o.buf.WriteString("]}\n")
	return err
}

// before reports whether an earlier topic has the same event as that one.
func (n *newest) before(i int) bool {
	for _, l := range n.last[:i] {
		if l.event == n.last[i].event {
			return true
		}
	}
	return false
}
