package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"berth"
	"berth/internal/daemon"
)

// operatorRaftInfoCommand describes the log of a server that is stopped.
func operatorRaftInfoCommand() *command {
	return &command{
		name: "operator raft info", args: "<data dir>", synopsis: "Describe the Raft log of a stopped server", min: 1, max: 1, local: true,
		example: "operator raft info /var/lib/berth",
		help: `Describes the Raft log and the snapshots in the data directory of an agent, for which the agent must be stopped. It shows the first
			and the last entry, the term, the vote and the servers of the newest configuration.`,
		setup: func(f *flags) action {
			data := f.data()
			read := func(_ context.Context, c *call) (daemon.LogInfo, error) { return daemon.InspectLog(c.path(c.args[0])) }
			return answer(data, read, showLogInfo)
		},
	}
}

// showLogInfo prints what is known of a log.
func showLogInfo(_ *call, p *page, i daemon.LogInfo) {
	p.pairs(
		"Entries", fmt.Sprintf("%d to %d", i.First, i.Last), "Last Term", strconv.FormatUint(i.LastTerm, 10), "Current Term", strconv.FormatUint(i.Term, 10),
		"Last Vote", or(i.VotedFor, none)+" in term "+strconv.FormatUint(i.VotedTerm, 10),
	)
	p.heading("Peers")
	rows := [][]string{{"ID", "Address", "Voter"}}
	for _, s := range i.Peers {
		rows = append(rows, []string{s.ID, s.Address, strconv.FormatBool(s.Voter)})
	}
	p.table(rows)
	p.heading("Snapshots")
	if len(i.Snapshots) == 0 {
		p.linef("No snapshots")
		return
	}
	rows = [][]string{{"ID", "Index", "Term", "Bytes"}}
	for _, s := range i.Snapshots {
		rows = append(rows, []string{s.ID, strconv.FormatUint(s.Index, 10), strconv.FormatUint(s.Term, 10), strconv.FormatInt(s.Size, 10)})
	}
	p.table(rows)
}

// operatorRaftLogsCommand prints the log of a server that is stopped.
func operatorRaftLogsCommand() *command {
	return &command{
		name: "operator raft logs", args: "<data dir>", synopsis: "Print the Raft log of a stopped server", min: 1, max: 1, local: true,
		example: "operator raft logs /var/lib/berth",
		help: `Prints the entries in the Raft log of a stopped agent as JSON, one object per line, with the commands that each holds. Entries that
			are part of a snapshot are no longer in the log. Handle the output with care: it has what users submitted.`,
		setup: func(f *flags) action {
			pretty := f.Bool("pretty", "Indent the JSON.")
			return func(_ context.Context, c *call) error {
				enc := json.NewEncoder(c.Out)
				enc.SetEscapeHTML(false)
				if *pretty {
					enc.SetIndent("", "    ")
				}
				return daemon.EachLogEntry(c.path(c.args[0]), func(e daemon.LogEntry) error { return enc.Encode(e) })
			}
		},
	}
}

// operatorRaftStateCommand prints the state of a server that is stopped.
func operatorRaftStateCommand() *command {
	return &command{
		name: "operator raft state", args: "<data dir>", synopsis: "Print the state of a stopped server", min: 1, max: 1, local: true,
		example: "operator raft state -last-index 1200 /var/lib/berth",
		help: `Prints as JSON the state that the snapshot and the log of a stopped agent lead to. Secrets are left out. The end of the log may hold
			entries that were never committed.`,
		setup: func(f *flags) action {
			last := f.Int("last-index", 0, "Apply the log up to this `index` only. 0 is all of it.")
			return func(_ context.Context, c *call) error {
				if err := c.notNegative(numberFlag{"last-index", int64(*last)}); err != nil {
					return err
				}
				return daemon.DumpState(c.path(c.args[0]), uint64(*last), c.Out)
			}
		},
	}
}

// operatorClientStateCommand prints what a node remembers of its allocations.
func operatorClientStateCommand() *command {
	return &command{
		name: "operator client-state", args: "<data dir>", synopsis: "Print what a node's agent remembers", min: 1, max: 1, local: true,
		example: "operator client-state /var/lib/berth",
		help: `Prints as JSON what the agent of a node keeps in its data directory to find its tasks again after a restart: its allocations, and
			what it recorded of each task. The agent may be running.`,
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				s, err := daemon.InspectAgentState(c.path(c.args[0]))
				if err != nil {
					return err
				}
				return c.json(s)
			}
		},
	}
}

// operatorSnapshotStateCommand prints the state in a snapshot.
func operatorSnapshotStateCommand() *command {
	return &command{
		name: "operator snapshot state", args: "<file>", synopsis: "Print the state in a snapshot", min: 1, max: 1, local: true,
		example: "operator snapshot state -filter 'JobID == \"web\"' backup.snap",
		help: `Prints the state in a snapshot as JSON, with an array for each table. Secrets are left out. With -filter, it prints only the rows
			that match the expression; tables whose rows lack one of its fields are left out.`,
		setup: func(f *flags) action {
			filter := f.String("filter", "Print only rows that match this `expression`.")
			return func(_ context.Context, c *call) error {
				file, err := os.Open(c.path(c.args[0]))
				if err != nil {
					return berth.Errorf(berth.Invalid, "cannot read the snapshot: %w", err)
				}
				defer file.Close()
				if err := daemon.DumpSnapshot(file, *filter, c.Out); err != nil {
					return berth.Errorf(berth.Invalid, "%s: %w", c.args[0], err)
				}
				return nil
			}
		},
	}
}

// operatorSnapshotRedactCommand removes the secrets from a snapshot.
func operatorSnapshotRedactCommand() *command {
	return &command{
		name: "operator snapshot redact", args: "<file>", synopsis: "Remove the secrets from a snapshot", min: 1, max: 1, local: true,
		example: "operator snapshot redact backup.snap",
		help: `Removes the root keys and the secrets of nodes from a snapshot, so that it can be given to others. The file is replaced. Keep a copy:
			a cluster that is restored from a redacted snapshot cannot read its variables, and its nodes have to join as new ones. What users
			wrote in their jobs stays.`,
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				path := c.path(c.args[0])
				if err := redactFile(path); err != nil {
					return berth.Errorf(berth.Invalid, "%s: %w", c.args[0], err)
				}
				p := c.page()
				p.linef("Redacted the snapshot %s", c.args[0])
				return c.show(p)
			}
		},
	}
}

// redactFile rewrites a snapshot without its secrets.
func redactFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return replaceWith(path, 0o600, func(w io.Writer) error { return daemon.RedactSnapshot(file, w) })
}
