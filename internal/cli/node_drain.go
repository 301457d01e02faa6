package cli

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// drainTime is the default deadline of a drain.
const drainTime = time.Hour

// nodeDrainCommand starts, changes, ends or follows a drain.
func nodeDrainCommand() *command {
	return &command{
		name: "node drain", args: "[node]", synopsis: "Drain a node, or stop draining it", max: 1,
		example: "node drain -enable -deadline 30m 4d2ba53b",
		help: `Drains a node: it takes no new work, and its allocations move elsewhere. Services move as their migrate blocks allow, batch jobs
			may finish, and system jobs stop last. At the deadline, one hour by default, everything left is stopped, and stopped batch
			allocations are not rescheduled. The command monitors the drain until the node's agent confirms that nothing runs there any more.
			Interrupting it does not end the drain; -disable does.

			The node is given by ID, prefix or name. Before draining several nodes, run "node eligibility -disable" on all of them, so that
			allocations do not move from one to the next.

			Asks for confirmation on a terminal if a node to drain is given by prefix. Without a terminal, a prefix requires -yes.`,
		setup: func(f *flags) action {
			d := nodeDrain{
				enable:     f.Bool("enable", "Drain the node."),
				disable:    f.Bool("disable", "Stop draining the node and make it eligible for new work."),
				deadline:   f.String("deadline", "The `duration` after which everything left is stopped, such as 30m. Defaults to one hour."),
				force:      f.Bool("force", "Stop everything immediately."),
				noDeadline: f.Bool("no-deadline", "Drain without a deadline."),
				ignore:     f.Bool("ignore-system", "Leave system jobs on the node."),
				keep:       f.Bool("keep-ineligible", "With -disable: keep the node ineligible for new work."),
				message:    f.String("m", "A `message` to store with the drain."),
				meta:       f.List("meta", "A `key=value` pair to store with the drain. Can be repeated."),
				self:       f.Bool("self", "Use the node of the agent that is called."),
				detach:     f.Bool("detach", "Return without monitoring."),
				monitor:    f.Bool("monitor", "Monitor a drain in progress without changing anything."),
				yes:        f.Bool("yes", "Do not ask for confirmation."),
			}
			return d.run
		},
	}
}

// nodeDrain holds the flags of "node drain".
type nodeDrain struct {
	enable, disable, force, noDeadline, ignore, keep, self, detach, monitor, yes *bool
	deadline, message                                                            *string
	meta                                                                         *[]string
}

// run changes the drain and follows it, unless -detach. The servers drive the
// drain, so ending the command does not end it.
func (d *nodeDrain) run(ctx context.Context, c *call) error {
	in, err := d.request(c)
	if err != nil {
		return err
	}
	// The flags are checked before any call.
	n, err := nodeStatus{self: d.self}.find(ctx, c)
	if err != nil {
		return err
	}
	if *d.monitor {
		return c.followDrain(ctx, &n, 0)
	}
	if err := d.confirm(c, &n); err != nil {
		return err
	}
	in.NodeID = n.ID.String()
	out, _, err := client.Call(ctx, c.client, op.DrainNode, *in)
	if err != nil {
		return err
	}
	if *d.disable {
		_, err := fmt.Fprintf(c.Out, "Node %q drain strategy unset\n", n.ID)
		return err
	}
	fmt.Fprintf(c.Out, "Node %q drain strategy set\n", n.ID)
	if *d.detach {
		return nil
	}
	return c.followDrain(ctx, &n, out.NodeModifyIndex)
}

// request builds the request from the flags.
func (d *nodeDrain) request(c *call) (*op.UpdateDrain, error) {
	// The flags exclude each other in groups, so they are counted.
	deeds, deadlines := 0, 0
	for _, given := range []bool{*d.enable, *d.disable, *d.monitor} {
		deeds += count(given)
	}
	for _, given := range []bool{*d.deadline != "", *d.force, *d.noDeadline} {
		deadlines += count(given)
	}
	switch {
	case deeds != 1:
		return nil, c.usagef("exactly one of -enable, -disable and -monitor is required")
	case *d.self == (len(c.args) > 0):
		return nil, c.usagef("give either a node or -self")
	case deadlines > 1:
		return nil, c.usagef("only one of -deadline, -force and -no-deadline can be used")
	case !*d.enable && (deadlines > 0 || *d.ignore):
		return nil, c.usagef("-deadline, -force, -no-deadline and -ignore-system require -enable")
	case !*d.disable && *d.keep:
		return nil, c.usagef("-keep-ineligible requires -disable")
	case *d.monitor && (*d.detach || *d.message != "" || len(*d.meta) > 0):
		return nil, c.usagef("-monitor cannot be used with -detach, -m or -meta")
	}
	in := &op.UpdateDrain{MarkEligible: *d.disable && !*d.keep}
	var err error
	// Without a strategy, the request ends the drain.
	if in.Meta, err = d.notes(c); err != nil || !*d.enable {
		return in, err
	}
	in.DrainSpec = &berth.DrainSpec{Deadline: drainTime, IgnoreSystemJobs: *d.ignore}
	switch {
	// A negative deadline forces the drain, and 0 means no deadline, as in the
	// API.
	case *d.force:
		in.DrainSpec.Deadline = -time.Second
	case *d.noDeadline:
		in.DrainSpec.Deadline = 0
	case *d.deadline != "":
		t, err := time.ParseDuration(*d.deadline)
		if err != nil || t <= 0 {
			return nil, c.usagef("flag -deadline must be a duration above 0, such as 30m, got %q; see also -force and -no-deadline", *d.deadline)
		}
		in.DrainSpec.Deadline = t
	}
	return in, nil
}

// count returns 1 for true and 0 for false, to add up flags.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// notes is the metadata to store with the drain.
func (d *nodeDrain) notes(c *call) (map[string]string, error) {
	if *d.message == "" && len(*d.meta) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, kv := range *d.meta {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, c.usagef("flag -meta must be key=value, got %q", kv)
		}
		out[k] = v
	}
	if *d.message != "" {
		// The keys under which Nomad stores the message.
		key := "message"
		if *d.disable {
			key = "cancel_message"
		}
		out[key] = *d.message
	}
	return out, nil
}

// confirm asks before draining a node that may not be meant.
func (d *nodeDrain) confirm(c *call, n *op.Node) error {
	exact := *d.self || c.args[0] == n.ID.String() || c.args[0] == n.Name
	if *d.disable || *d.yes || exact {
		return nil
	}
	if !c.Terminal {
		return berth.Errorf(berth.Invalid, "%q is not the full ID of node %s (%q): give the full ID or use -yes", c.args[0], n.ID, n.Name)
	}
	yes, err := c.ask(fmt.Sprintf("Are you sure you want to drain node %s, %q?", n.ID, clean(n.Name)))
	if err == nil && !yes {
		err = berth.Errorf(berth.Invalid, "node %s was not drained", n.ID)
	}
	return err
}

// drainWatch follows the drain of a node.
type drainWatch struct {
	*monitor
	node  berth.NodeID
	known map[berth.AllocID]op.Alloc // as last seen
	began bool                       // the first list of allocations has been read
	last  *berth.DrainStrategy       // the strategy last seen, if any
}

// followDrain shows the progress of a drain until it completes or is canceled.
func (c *call) followDrain(ctx context.Context, n *op.Node, index uint64) error {
	m := &monitor{call: c, began: c.Now(), progress: &progress{out: c.Out, terminal: c.Terminal, width: c.Width}}
	w := &drainWatch{monitor: m, node: n.ID, known: map[berth.AllocID]op.Alloc{}}
	w.say("Ctrl-C to stop monitoring: will not cancel the node drain")
	err := w.run(ctx, index)
	m.progress.erase()
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(c.Err, "Interrupted. The drain continues in the background; \"%s node drain -monitor %s\" monitors it again, -disable ends it.\n", c.Name, n.ID.Short())
		return exit(exitError)
	}
	return err
}

// say prints a line as it is.
func (w *drainWatch) say(format string, args ...any) {
	w.progress.line(fmt.Sprintf("%s: %s", stamp(w.Now()), clean(fmt.Sprintf(format, args...))))
}

// run reports changes until the drain is over. index is that of the drain's
// write: reads older than it show the node before the drain.
func (w *drainWatch) run(ctx context.Context, index uint64) error {
	left := 0
	w.progress.status = func() string {
		return strconv.Itoa(left) + " left to stop (" + span(w.Now().Sub(w.monitor.began)) + ")"
	}
	var seen uint64 // index of the list of allocations
	for {
		var n op.Node
		var list []op.Alloc
		var meta op.Meta
		err := w.ask(ctx, func(ctx context.Context) (err error) {
			in := op.NodeRef{NodeID: w.node.String(), Query: op.Query{MinQueryIndex: seen, MaxQueryTime: w.poll()}}
			if list, meta, err = client.Call(ctx, w.client, op.NodeAllocs, in); err == nil {
				n, _, err = client.Call(ctx, w.client, op.ReadNode, op.NodeRef{NodeID: w.node.String()})
			}
			return err
		})
		if err != nil {
			return err
		}
		seen = max(meta.Index, 1)
		w.changes(list)
		// The node and the list are read one after the other, so they may
		// differ by a change; the next round corrects that.
		left = w.left(&n, list)
		if n.ModifyIndex < index { // this server has not applied the drain yet
			continue
		}
		if over, err := w.over(&n, left); over || err != nil {
			return err
		}
	}
}

// over reports changes of the drain, and whether it has ended.
func (w *drainWatch) over(n *op.Node, left int) (bool, error) {
	switch {
	case n.DrainStrategy != nil:
		if w.last != nil && (*w.last != *n.DrainStrategy) {
			w.say("Node %q drain updated: %s", w.node, drainText(n.DrainStrategy, w.Now()))
		}
		w.last = n.DrainStrategy
		return false, nil
	case n.LastDrain != nil && n.LastDrain.Status == berth.DrainCanceled:
		w.say("Node %q drain was canceled; %s left", w.node, plural(left, "allocation"))
		return true, exit(exitError)
	case n.LastDrain == nil:
		return true, berth.Errorf(berth.Invalid, "node %s is not being drained", w.node)
	}
	w.say("Drain complete for node %s", w.node)
	if left == 0 {
		w.say("All allocations on node %q have stopped", w.node)
	}
	return true, nil
}

// changes reports the allocations that have changed. Those of the first list
// are not reported.
func (w *drainWatch) changes(list []op.Alloc) {
	for _, a := range list {
		old, ok := w.known[a.ID]
		w.known[a.ID] = a
		// A drain marks an allocation first and stops it when its job allows.
		was, is := migrates(&old), migrates(&a)
		switch {
		case !ok:
			if w.began || !is || a.ClientStatus.Ended() {
				continue
			}
			w.say("Alloc %q marked for migration", a.ID)
		case old.ClientStatus != a.ClientStatus:
			w.say("Alloc %q status %s -> %s", a.ID, old.ClientStatus, a.ClientStatus)
		case is && !was:
			w.say("Alloc %q marked for migration", a.ID)
		case is && old.DesiredStatus != a.DesiredStatus:
			w.say("Alloc %q draining", a.ID)
		}
	}
	w.began = true
}

// migrates reports whether an allocation was marked to move off its node.
func migrates(a *op.Alloc) bool {
	m := a.DesiredTransition.Migrate
	return m != nil && *m
}

// left counts the allocations that have not ended. System jobs count only if
// they are drained too.
func (w *drainWatch) left(n *op.Node, list []op.Alloc) (left int) {
	d := n.DrainStrategy
	if d == nil {
		d = w.last
	}
	for _, a := range list {
		stays := d != nil && d.IgnoreSystemJobs && a.Job != nil && a.Job.Type == berth.TypeSystem
		if !stays && !a.ClientStatus.Ended() {
			left++
		}
	}
	return left
}

// drainText describes a drain strategy.
func drainText(d *berth.DrainStrategy, now time.Time) string {
	text := "no deadline"
	switch {
	case d.Deadline < 0:
		text = "force drain"
	case !d.ForceDeadline.IsZero():
		text = "deadline " + stamp(d.ForceDeadline)
	}
	if !d.ForceDeadline.IsZero() && !d.ForceDeadline.After(now) {
		text += ", which has passed"
	}
	if d.IgnoreSystemJobs {
		text += "; system jobs stay"
	}
	return text
}

// drainPairs are the rows about a node's drain.
func drainPairs(n *op.Node, now time.Time) []string {
	kv := []string{"Drain", strconv.FormatBool(n.Drain)}
	if n.DrainStrategy != nil {
		kv[1] += "; " + drainText(n.DrainStrategy, now)
	}
	if d := n.LastDrain; d != nil {
		text := d.Status + " at " + stamp(d.UpdatedAt)
		if len(d.Meta) > 0 {
			text += " (" + details(maps.Clone(d.Meta)) + ")"
		}
		kv = append(kv, "Last Drain", text)
	}
	return kv
}
