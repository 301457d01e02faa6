package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/op"
)

// auditListCommand shows what is in the audit log of an agent.
func auditListCommand() *command {
	return &command{
		name: "operator audit list", synopsis: "Show the audit log of an agent", max: 0,
		example: "operator audit list -since 1h -operation 'job.*'",
		help: `Shows who asked the agent for what, the newest request first, and checks that no line of what it reads was changed, removed or put
			in. It needs a management token. The log is that of the agent that is called; each agent has its own.
			A page has 100 entries unless -per-page says otherwise.`,
		setup: func(f *flags) action {
			l := auditList{
				listFlags: f.list(),
				since:     f.String("since", "Show only requests since this `time` (RFC 3339), or that long ago, such as 2h."),
				until:     f.String("until", "Show only requests before this `time` (RFC 3339), or that long ago."),
				user:      f.String("user", "Show only requests of this `user`: the name or accessor ID of a token, or the name of a task or node."),
				operation: f.String("operation", "Show only this `operation`: its name, such as job.register, an HTTP method, or a path. * stands for any text."),
				stage:     f.String("stage", "Show requests as they were `answered` (the default), received, or both."),
			}
			f.webFlag()
			return l.run
		},
	}
}

// auditList holds the flags of "operator audit list".
type auditList struct {
	listFlags
	since, until, user, operation, stage *string
}

// run prints one page of the log.
func (l auditList) run(ctx context.Context, c *call) error {
	in := op.AuditQuery{User: *l.user, Operation: *l.operation, Stage: *l.stage}
	for _, x := range []struct {
		flag, text string
		to         *string
	}{{"-since", *l.since, &in.Since}, {"-until", *l.until, &in.Until}} {
		t, err := moment(x.text, time.Now())
		if err != nil {
			return berth.Errorf(berth.Invalid, "%s: %w", x.flag, err)
		}
		if !t.IsZero() {
			*x.to = t.UTC().Format(time.RFC3339Nano)
		}
	}
	c.web(ctx, "/audit")
	return showList(ctx, c, l.listFlags, op.ReadAudit, &in, &in.Query, "No entries found", func(p *page, list []op.AuditEntry) {
		rows := [][]string{{"Line", "Time", "Who", "Operation", "About", "From", "Result"}}
		for i := range list {
			rows = append(rows, auditRow(&list[i]))
		}
		p.table(rows)
	})
}

// moment reads a time, or how long ago it was; "" is the zero time.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, berth.Errorf(berth.Invalid, "must be a time such as 2026-01-02T15:04:05Z, or a duration such as 2h, got %q", berth.Clip(text, 64))
	}
	return t, nil
}

// auditRow is a row of the table.
func auditRow(e *op.AuditEntry) []string {
	if e.Problem != "" {
		return []string{strconv.FormatUint(e.Line, 10), none, none, none, none, none, "NOT WHOLE: " + e.Problem}
	}
	var about []string
	for _, k := range slices.Sorted(maps.Keys(e.Object)) {
		about = append(about, k+"="+e.Object[k])
	}
	result := e.Stage
	if e.Stage == op.AuditAnswered {
		result = strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, e.Error))
	}
	return []string{
		strconv.FormatUint(e.Line, 10), stamp(e.Time), or(or(e.User, e.Type), none), or(e.Operation, e.Method+" "+e.Path), or(strings.Join(about, " "), none), e.Address, result,
	}
}
