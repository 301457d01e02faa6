package element

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"berth/internal/expr"
)

// output is one output with a link to each of its targets.
type output struct {
	mu           sync.Mutex
	distribution string
	order        []*link // as the file has them
	links        map[target]*link
	next         int // of those that take turns
}

// link is a connection to a target, or the attempt to open one.
type link struct {
	to     target
	filter *expr.Expr // nil lets all through
	queue  chan Tuple
	stop   context.CancelFunc

	mu sync.Mutex
	up bool
}

// wire gives the output these targets: new ones are connected with, and those
// that are gone, or are elsewhere now, are not any more.
func (o *output) wire(e *Element, distribution string, targets []target) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.distribution, o.order = distribution, nil
	old := o.links
	o.links = map[target]*link{}
	for _, t := range targets {
		l := old[t]
		if l == nil {
			l = newLink(e, t)
		}
		delete(old, t)
		o.links[t] = l
		o.order = append(o.order, l)
	}
	for _, l := range old {
		l.stop()
	}
}

func newLink(e *Element, t target) *link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &link{to: t, queue: make(chan Tuple, 64), stop: cancel}
	if t.Filter != "" {
		f, err := expr.Parse(t.Filter)
		if err != nil {
			fmt.Printf("%s.%s asks for what we do not understand: %v\n", t.PE, t.Input, err)
		}
		l.filter = f
	}
	if t.Addr != "" {
		go l.run(ctx, e)
	}
	return l
}

// connected returns how many targets the output is connected with, and how many
// it has.
func (o *output) connected() (have, want int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.order {
		if l.isUp() {
			have++
		}
	}
	return have, len(o.order)
}

func (l *link) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

func (l *link) set(e *Element, up bool) {
	l.mu.Lock()
	changed := l.up != up
	l.up = up
	l.mu.Unlock()
	if changed {
		e.nudge()
	}
}

// run keeps the link up until it is stopped.
func (l *link) run(ctx context.Context, e *Element) {
	for {
		if err := l.once(ctx, e); ctx.Err() == nil {
			fmt.Printf("%s.%s at %s: %v\n", l.to.PE, l.to.Input, l.to.Addr, err)
		}
		l.set(e, false)
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// once connects, says who we are, and sends until that fails.
func (l *link) once(ctx context.Context, e *Element) error {
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", l.to.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := fmt.Fprintln(conn, e.Name); err != nil {
		return err
	}
	fmt.Printf("connected with %s.%s at %s\n", l.to.PE, l.to.Input, l.to.Addr)
	l.set(e, true)
	gone := make(chan error, 1)
	go func() { // nobody answers; the read ends with the connection
		_, err := conn.Read(make([]byte, 1))
		gone <- err
	}()
	for {
		select {
		case t := <-l.queue:
			b, err := json.Marshal(t)
			if err != nil {
				return err
			}
			if _, err := conn.Write(append(b, '\n')); err != nil {
				return err
			}
		case err := <-gone:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send gives a tuple to the targets: the static ones as the stream is to be
// distributed, and every dynamic one whose filter lets it through.
func (o *output) send(t Tuple) {
	o.mu.Lock()
	var to, turns []*link
	for _, l := range o.order {
		switch {
		case !l.isUp():
		case l.to.Kind == "dynamic":
			if l.lets(t) {
				to = append(to, l)
			}
		case o.distribution == "broadcast":
			to = append(to, l)
		default:
			turns = append(turns, l)
		}
	}
	if len(turns) > 0 {
		at := o.next % len(turns)
		if o.distribution == "hash" { // equal ones go to the same target
			at = t.Seq % len(turns)
		}
		o.next++
		to = append(to, turns[at])
	}
	o.mu.Unlock()
	for _, l := range to {
		l.put(t)
	}
}

// lets reports whether an importer wants a tuple.
func (l *link) lets(t Tuple) bool {
	if l.filter == nil {
		return l.to.Filter == ""
	}
	truth, err := l.filter.Eval(func(name string) (any, bool) {
		switch name {
		case "seq":
			return int64(t.Seq), true
		case "value":
			return t.Value, true
		case "score":
			return t.Score, true
		}
		return nil, false
	})
	return err == nil && truth == expr.True
}

// put waits while the target does not keep up, unless it is to lose tuples
// then. It does not wait for one that is not connected.
func (l *link) put(t Tuple) {
	for {
		select {
		case l.queue <- t:
			return
		default:
		}
		if l.to.Congestion == "drop" || !l.isUp() {
			return
		}
		select {
		case l.queue <- t:
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}
