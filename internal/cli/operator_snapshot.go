package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"berth"
	"berth/client"
	"berth/internal/daemon"
	"berth/op"
)

// operatorSnapshotSaveCommand downloads the state to a file that must not exist
// yet.
func operatorSnapshotSaveCommand() *command {
	return &command{
		name: "operator snapshot save", args: "<file>", synopsis: "Save a snapshot of the cluster state", min: 1, max: 1,
		example: "operator snapshot save backup.snap",
		help: `Saves the cluster state to a new file: jobs, nodes, allocations and everything else in the Raft state, but no task data. The file
			contains the secrets of nodes. It is created only after the whole snapshot has been received and verified.`,
		setup: func(f *flags) action {
			stale := f.Bool("stale", "Accept the state of any server, even if it is slightly old or there is no leader.")
			redact := f.Bool("redact", "Leave out the root keys and the secrets of nodes; see \"operator snapshot redact\".")
			return func(ctx context.Context, c *call) error {
				path := c.path(c.args[0])
				if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
					return berth.Errorf(berth.Conflict, "%s already exists; nothing was written", c.args[0])
				}
				if err := c.saveSnapshot(ctx, path, *stale, *redact); err != nil {
					return err
				}
				p := c.page()
				p.linef("State file written to %s", c.args[0])
				return c.show(p)
			}
		},
	}
}

// saveSnapshot writes a temporary file and renames it once it is complete.
func (c *call) saveSnapshot(ctx context.Context, path string, stale, redact bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // readable only by its owner
	if err != nil {
		return berth.Errorf(berth.Invalid, "cannot write the snapshot: %w", err)
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, _, err := client.Download(ctx, c.client, op.ReadSnapshot, op.Query{AllowStale: stale}, f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	if redact {
		if err := redactFile(f.Name()); err != nil {
			return err
		}
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename, never replaces a file
		return berth.Errorf(berth.Conflict, "cannot create the snapshot file: %w", err)
	}
	os.Remove(f.Name())
	return nil
}

// operatorSnapshotRestoreCommand replaces the state of the cluster. It asks for
// no confirmation.
func operatorSnapshotRestoreCommand() *command {
	return &command{
		name: "operator snapshot restore", args: "<file>", synopsis: "Restore the cluster state from a snapshot", min: 1, max: 1,
		example: "operator snapshot restore backup.snap",
		help: `Replaces the cluster state with that of a snapshot; later changes are lost. The file is verified before anything changes. Agents
			stop allocations that the snapshot does not contain, and start those it does.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				f, err := os.Open(c.path(c.args[0]))
				if err != nil {
					return berth.Errorf(berth.Invalid, "cannot read the snapshot: %w", err)
				}
				defer f.Close()
				// The size is sent before the content, so it must be known.
				info, err := f.Stat()
				if err != nil || !info.Mode().IsRegular() {
					return berth.Errorf(berth.Invalid, "%s is not a regular file", c.args[0])
				}
				if _, _, err := client.Upload(ctx, c.client, op.WriteSnapshot, op.RestoreSnapshot{}, f, info.Size()); err != nil {
					return err
				}
				p := c.page()
				p.linef("Snapshot Restored")
				return c.show(p)
			}
		},
	}
}

// operatorSnapshotInspectCommand reads a file. It calls no agent, so it works
// when the cluster is down.
func operatorSnapshotInspectCommand() *command {
	return &command{
		name: "operator snapshot inspect", args: "<file>", synopsis: "Inspect a snapshot", min: 1, max: 1, local: true,
		example: "operator snapshot inspect -check backup.snap",
		help: `Reads and verifies a snapshot, and shows when it was saved and what it contains. With -check, also verifies the invariants of the
			state; the exit code is then 1 if one is violated.`,
		setup: func(f *flags) action {
			data := f.data()
			check := f.Bool("check", "Verify the invariants of the state.")
			return func(_ context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				file, err := os.Open(c.path(c.args[0]))
				if err != nil {
					return berth.Errorf(berth.Invalid, "cannot read the snapshot: %w", err)
				}
				defer file.Close()
				info, err := daemon.InspectSnapshot(file, *check)
				if err != nil {
					return berth.Errorf(berth.Invalid, "%s: %w", c.args[0], err)
				}
				if data.wanted() {
					err = data.write(c, info)
				} else {
					err = c.show(snapshotPage(c, info, *check))
				}
				if err == nil && len(info.Faults) > 0 {
					err = exit(exitError)
				}
				return err
			}
		},
	}
}

// snapshotPage shows where a snapshot comes from and how much it holds of each
// kind. checked reports that the invariants were verified.
func snapshotPage(c *call, s *daemon.SnapshotInfo, checked bool) *page {
	p := c.page()
	p.pairs(
		"Created", s.Created, "ID", s.ID, "Size", strconv.FormatInt(s.Size, 10)+" B", "Index", strconv.FormatUint(s.Index, 10),
		"Term", strconv.FormatUint(s.Term, 10), "Version", strconv.Itoa(s.Version), "Server", s.Server, "Hash", s.Hash,
	)
	p.gap()
	rows, total := [][]string{{"Type", "Count", "Bytes"}}, daemon.Content{Name: "Total"}
	for _, t := range s.Types {
		rows = append(rows, contentRow(t))
		total.Count += t.Count
		total.Bytes += t.Bytes
	}
	p.table(append(rows, contentRow(total)))
	if checked {
		p.gap()
		p.linef("%d invariants violated", len(s.Faults))
		for _, f := range s.Faults {
			p.linef("  %s", f)
		}
	}
	return p
}

// contentRow is a row of the table of contents. Sizes are in bytes.
func contentRow(c daemon.Content) []string {
	return []string{c.Name, strconv.Itoa(c.Count), strconv.FormatInt(c.Bytes, 10)}
}
