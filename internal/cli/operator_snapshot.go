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

func operatorSnapshotSaveCommand() *command {
	return &command{
		name: "operator snapshot save", args: "<file>", synopsis: "Save the state of the cluster to a file", min: 1, max: 1,
		help: `Saves the state of the cluster to a file, which must not be there yet: jobs, nodes, allocations and all else that the servers agree on,
			but no data of tasks. The file holds the secrets of nodes. It is there only once all of it has come and was checked.`,
		setup: func(f *flags) action {
			stale := f.Bool("stale", "Take the state of any server, though it be a little older, or though no server leads.")
			f.UnbuiltBool("redact")
			return func(ctx context.Context, c *call) error {
				path := c.path(c.args[0])
				if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
					return berth.Errorf(berth.Conflict, "%s is there already", c.args[0])
				}
				if err := c.saveSnapshot(ctx, path, *stale); err != nil {
					return err
				}
				p := c.page()
				p.linef("State file written to %s", c.args[0])
				return c.show(p)
			}
		},
	}
}

// saveSnapshot gives the file its name when all of it is on disk.
func (c *call) saveSnapshot(ctx context.Context, path string, stale bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // for its owner alone
	if err != nil {
		return berth.Errorf(berth.Invalid, "the snapshot cannot be written: %w", err)
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
	if err := os.Link(f.Name(), path); err != nil { // which takes no file's place, as a rename would
		return berth.Errorf(berth.Conflict, "the snapshot cannot be given its name: %w", err)
	}
	os.Remove(f.Name())
	return nil
}

func operatorSnapshotRestoreCommand() *command {
	return &command{
		name: "operator snapshot restore", args: "<file>", synopsis: "Replace the state of the cluster by that of a file", min: 1, max: 1,
		help: `Replaces the state of the cluster by that of a snapshot: what came after it is gone. The file is checked before anything changes. Agents
			stop what they run and the snapshot does not know, and start what it says.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				f, err := os.Open(c.path(c.args[0]))
				if err != nil {
					return berth.Errorf(berth.Invalid, "the snapshot cannot be read: %w", err)
				}
				defer f.Close()
				info, err := f.Stat()
				if err != nil || !info.Mode().IsRegular() {
					return berth.Errorf(berth.Invalid, "%s is no file", c.args[0])
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

func operatorSnapshotInspectCommand() *command {
	return &command{
		name: "operator snapshot inspect", args: "<file>", synopsis: "Show what is in a snapshot", min: 1, max: 1, local: true,
		help: `Reads a snapshot in full and checks that nothing in it is damaged; shows when it was saved, and how much of what is in it. With -check
			it also looks whether what must hold of every state holds of this one, and ends with 1 if it does not.`,
		setup: func(f *flags) action {
			data := f.data()
			check := f.Bool("check", "Look whether what must hold of every state holds.")
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
		p.linef("%d invariants do not hold", len(s.Faults))
		for _, f := range s.Faults {
			p.linef("  %s", f)
		}
	}
	return p
}

func contentRow(c daemon.Content) []string {
	return []string{c.Name, strconv.Itoa(c.Count), strconv.FormatInt(c.Bytes, 10)}
}
