package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/eventually"
)

// Who never sees a check fail does not know that it can. Each of these defects
// is planted in the real binary by a failpoint, and a round must find it.

// defect is a mistake that a server could make, planted to see that a check
// finds it.
type defect struct {
	name   string
	says   string
	points string // failpoints of every server from its start on; "" if the fault plants it
	fault  *Fault // the fault that reveals it
	shows  string // text in one of the failures
	rounds int    // within this many rounds it must show
	long   bool   // a round seldom shows it: many are played, in the long form alone
}

// apart is leaderApart without its other checks, which the defects would fail.
var apart = &Fault{ID: "F-08", Hold: 5 * time.Second, Start: leaderApart.Start, Stop: heal}

// skipReport makes a follower skip the reports of agents for a while, at least
// one. A single one would not do: if the same allocation is reported again, the
// states are equal again. It is not planted from the start, because a cluster
// could not be set up with it.
var skipReport = &Fault{
	ID: "F-01", Hold: 3 * time.Second,
	Start: func(ctx context.Context, r *round) error {
		l, err := r.wait(ctx)
		if err != nil {
			return err
		}
		r.victim = r.others(l)[0]
		return r.victim.set("consensus/skip-apply/*state.ReportAllocs=error*")
	},
	Stop: func(ctx context.Context, r *round) error {
		err := until(ctx, eventually.Limit, "a report is skipped", func() string {
			if !strings.Contains(r.victim.said(r.logs[r.victim.name]), "a fault point skips a command") {
				return "none was"
			}
			return ""
		})
		return errors.Join(err, r.victim.set(""))
	},
}

// lateNotice has a server that has lost its leadership act as the leader for some
// time longer. Without a defect nothing that it answers then is wrong: it asks a
// majority.
const lateNotice = "consensus/notice-lost=delay(4s)*"

// defects are what -planted can plant. Each must be found by the check that is
// there for it.
var defects = []*defect{
	{
		name: "fsync-off", says: "entries are acknowledged that are in memory alone",
		// The servers find it themselves: their logs end before what they had synced,
		// so they do not start.
		points: "consensus/unsynced=error*", fault: killAllServers, shows: "does not run", rounds: 2,
	},
	{
		name: "lease-read", says: "a leader answers reads without asking whether it still leads",
		points: "consensus/lease-read=error*;" + lateNotice, fault: apart, shows: "I-37", rounds: 6,
	},
	{
		name: "behind-own-write", says: "a follower answers before it has applied what it forwarded",
		points: "api/behind-own-write=error*", fault: killLeader, shows: "the same connection", rounds: 10, long: true,
	},
	{
		name: "skipped-apply", says: "a follower passes over a command of the log",
		fault: skipReport, shows: "I-38", rounds: 2,
	},
	{
		name: "double-launch", says: "a periodic job is launched at times at which it is not due",
		points: "periodic/launch-twice=error*", fault: killLeader, shows: "I-23", rounds: 2,
	},
}

// defectNames returns the names that -planted takes.
func defectNames() (out []string) {
	for _, d := range defects {
		out = append(out, d.name)
	}
	return out
}

// findDefects plants the chosen defects and returns 1 unless all were found.
func findDefects(ctx context.Context, o *options, net *network) (int, error) {
	code := 0
	for name := range strings.SplitSeq(o.planted, ",") {
		i := slices.IndexFunc(defects, func(d *defect) bool { return d.name == name })
		if i < 0 && name != "all" {
			return 1, fmt.Errorf("-planted: there is no defect %q; there are %s", name, strings.Join(defectNames(), ", "))
		}
		for k, d := range defects {
			if name != "all" && k != i {
				continue
			}
			found, err := d.find(ctx, o, net)
			if err != nil {
				return 1, fmt.Errorf("%s: %w", d.name, err)
			}
			if fmt.Printf("%s (%s): %s\n", d.name, d.says, found); !strings.HasPrefix(found, "found") {
				code = 1
			}
		}
	}
	return code, nil
}

// find plants the defect and returns the round in which it was found, and what
// showed it.
func (d *defect) find(ctx context.Context, o *options, net *network) (string, error) {
	setup := d.fault.Setup
	setup.Defect = map[string]string{"": d.points}
	c, err := newCluster(ctx, o, net, setup)
	if err != nil {
		return "", err
	}
	defer c.close(ctx, false)
	var other []string
	for n := 1; n <= d.rounds && ctx.Err() == nil; n++ {
		r := newRound(c, d.fault, n, o)
		res := r.play(ctx)
		for _, f := range res.Failures {
			if strings.Contains(f, d.shows) {
				return fmt.Sprintf("found in round %d: %s", n, f), nil
			}
		}
		if other = append(other, res.Failures...); len(res.Failures) > 0 {
			c.keep(filepath.Join(o.out, fmt.Sprintf("planted-%s-%d", d.name, n)), r)
		}
	}
	return fmt.Sprintf("NOT found in %d rounds, which ended with %q", d.rounds, other), ctx.Err()
}
