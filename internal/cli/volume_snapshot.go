package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/client"
	"berth/op"
)

// assignments reads the values of a flag that is given as key=value, once for each
// key.
func (c *call) assignments(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, x := range list {
		key, value, ok := strings.Cut(x, "=")
		if !ok || key == "" {
			return nil, c.usagef("flag -%s: must be key=value", flag) // what was given may be secret
		}
		out[key] = value
	}
	return out, nil
}

// secretFlag declares the flag -secret, and returns what reads it as a request has
// it: see op.ParseSecrets.
func (f *flags) secretFlag() func(*call) (string, error) {
	list := f.List("secret", "A secret for the plugin, as `key=value`. Can be repeated.")
	return func(c *call) (string, error) {
		secrets, err := c.assignments("secret", *list)
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(secrets)) {
			if strings.Contains(k+secrets[k], ",") {
				return "", c.usagef("flag -secret: must have no comma")
			}
			pairs = append(pairs, k+"="+secrets[k])
		}
		return strings.Join(pairs, ","), err
	}
}

// volumeSnapshotCreateCommand makes a snapshot.
func volumeSnapshotCreateCommand() *command {
	return &command{
		name: "volume snapshot create", args: "<volume> [name]", synopsis: "Create a snapshot of a CSI volume", min: 1, max: 2, list: "volume status",
		example: "volume snapshot create data before-upgrade",
		help:    "Has the provider of a CSI volume, given by its full ID, make a snapshot of it. Without a name it has that of the volume.",
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Show IDs in full.")
			parameters := f.List("parameter", "A parameter for the plugin, as `key=value`. Can be repeated.")
			secrets := f.List("secret", "A secret for the plugin, as `key=value`. Can be repeated.")
			return func(ctx context.Context, c *call) (err error) {
				s := &op.CSISnapshot{SourceVolumeID: c.args[0]}
				if len(c.args) > 1 {
					s.Name = c.args[1]
				}
				if s.Parameters, err = c.assignments("parameter", *parameters); err != nil {
					return err
				}
				if s.Secrets, err = c.assignments("secret", *secrets); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.CreateSnapshot, op.WriteSnapshots{Snapshots: []*op.CSISnapshot{s}})
				if err != nil {
					return err
				}
				p := c.page()
				p.table(snapshotRows(out.Snapshots, *verbose))
				return c.show(p)
			}
		},
	}
}

// snapshotRows are the rows of a table of snapshots, the newest first.
func snapshotRows(list []*op.CSISnapshot, verbose bool) [][]string {
	rows := [][]string{{"Snapshot ID", "Volume ID", "Size", "Create Time", "Ready?"}}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b *op.CSISnapshot) int { return int(min(1, max(-1, b.CreateTime-a.CreateTime))) })
	for _, s := range list {
		made := none
		if s.CreateTime > 0 {
			made = stamp(time.Unix(s.CreateTime, 0))
		}
		rows = append(rows, []string{cutID(s.ID, verbose), cutID(s.ExternalSourceVolumeID, verbose), byteSize(s.SizeBytes), made, strconv.FormatBool(s.IsReady)})
	}
	return rows
}

// shortExternal is the length of the ID of a provider in lists, unless -verbose is
// given.
const shortExternal = 40

// cutID shortens the ID of a provider.
func cutID(id string, verbose bool) string {
	if verbose || len(id) <= shortExternal {
		return id
	}
	return id[:shortExternal-3] + "..."
}

// volumeSnapshotListCommand lists snapshots.
func volumeSnapshotListCommand() *command {
	return &command{
		name: "volume snapshot list", synopsis: "List the snapshots of a provider", list: "plugin status",
		example: "volume snapshot list -plugin disk",
		help:    "Lists the snapshots that the provider of a CSI plugin has.",
		setup: func(f *flags) action {
			plugin := f.String("plugin", "The `plugin` whose provider is asked. It must be given.")
			verbose := f.Bool("verbose", "Show IDs in full.")
			perPage := f.Int("per-page", 0, "The `number` of rows per page. 0 is all.")
			token := f.String("page-token", "The `token` of the page, as printed below the previous page.")
			secrets := f.secretFlag()
			return func(ctx context.Context, c *call) error {
				in := op.ExternalQuery{PluginID: *plugin}
				var err error
				switch in.Secrets, err = secrets(c); {
				case err != nil:
					return err
				case *plugin == "":
					return c.usagef("flag -plugin is required: want the ID of a CSI plugin; see %q", c.Name+" plugin status")
				case *perPage < 0 || *perPage > op.MaxPage:
					return c.usagef("flag -per-page must be between 0 and %[2]d, got %[1]d", *perPage, op.MaxPage)
				}
				in.PerPage, in.NextToken = int32(*perPage), *token
				out, _, err := client.Call(ctx, c.client, op.ListSnapshots, in)
				if err != nil {
					return err
				}
				p := c.page()
				if len(out.Snapshots) == 0 {
					p.linef("No snapshots")
				} else {
					p.table(snapshotRows(out.Snapshots, *verbose))
				}
				c.paged(p, out.NextToken)
				return c.show(p)
			}
		},
	}
}

// volumeSnapshotDeleteCommand deletes a snapshot.
func volumeSnapshotDeleteCommand() *command {
	return &command{
		name: "volume snapshot delete", args: "<plugin> <snapshot>", synopsis: "Delete a snapshot of a CSI volume", min: 2, max: 2, list: "plugin status",
		example: "volume snapshot delete disk snap-1",
		help:    "Has the provider of a CSI plugin delete a snapshot, given by the provider's ID.",
		setup: func(f *flags) action {
			secrets := f.secretFlag()
			return func(ctx context.Context, c *call) error {
				in := op.DropSnapshot{PluginID: c.args[0], SnapshotID: c.args[1]}
				var err error
				if in.Secrets, err = secrets(c); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.RemoveSnapshot, in); err != nil {
					return err
				}
				p := c.page()
				p.linef("Successfully deleted snapshot %q!", c.args[1])
				return c.show(p)
			}
		},
	}
}
