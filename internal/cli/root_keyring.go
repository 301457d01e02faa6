package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// rootKeyringListCommand lists the root keys. The count of variables shows how
// far a full rotation is.
func rootKeyringListCommand() *command {
	return &command{
		name: "operator root keyring list", synopsis: "List the root keys",
		example: "operator root keyring list",
		help: `Lists the keys that encrypt variables and sign the identities of tasks, the oldest first. New variables are encrypted with the
			active key. The number of variables that a key encrypts falls to 0 during a full rotation.`,
		setup: func(f *flags) action {
			verbose := f.Bool("verbose", "Show IDs in full.")
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListRootKeys, &in, &in, "No root keys found", func(p *page, list []op.RootKey) { p.table(c.rootKeyRows(list, *verbose)) })
			}
		},
	}
}

// rootKeyRows are the rows about root keys.
func (c *call) rootKeyRows(list []op.RootKey, verbose bool) [][]string {
	rows := [][]string{{"Key", "State", "Create Time", "Publish Time", "Signing", "Wrapper", "Variables"}}
	for _, k := range list {
		publish := none
		if k.PublishTime > 0 {
			publish = c.when(k.PublishTime, verbose)
		}
		rows = append(rows, []string{
			short(k.KeyID.String(), verbose), k.State, c.when(k.CreateTime, verbose), publish, k.Signing, k.Wrapper, strconv.Itoa(k.Variables),
		})
	}
	return rows
}

// rootKeyringRotateCommand adds a root key.
func rootKeyringRotateCommand() *command {
	return &command{
		name: "operator root keyring rotate", synopsis: "Make a new root key",
		example: "operator root keyring rotate -full",
		help: `Makes a new root key and makes it the active one. Earlier keys stay, so that what they encrypted can be read.

			With -full, all variables are encrypted again with the new key. That happens in the background; "operator root keyring list"
			shows how many are left.`,
		setup: func(f *flags) action {
			full := f.Bool("full", "Encrypt all variables with the new key.")
			now := f.Bool("now", "Make the new key the active one at once. This is the default.")
			ahead := f.String("prepublish", "Publish the key that verifies identities at once, and make the new key the active one after this `duration`, such as 1h.")
			verbose := f.Bool("verbose", "Show IDs in full.")
			return func(ctx context.Context, c *call) error {
				in := op.RotateKey{Full: *full}
				if *ahead != "" {
					d, err := time.ParseDuration(*ahead)
					switch {
					case err != nil || d <= 0:
						return c.usagef("flag -prepublish must be a duration such as 1h, got %q", *ahead)
					case *now || *full:
						return c.usagef("-prepublish cannot be used with -now or -full")
					}
					in.PublishTime = c.Now().Add(d).UnixNano()
				}
				out, _, err := client.Call(ctx, c.client, op.RotateRootKey, in)
				if err != nil {
					return err
				}
				p := c.page()
				p.table(c.rootKeyRows([]op.RootKey{*out.Key}, *verbose))
				return c.show(p)
			}
		},
	}
}

// rootKeyringRemoveCommand removes a root key.
func rootKeyringRemoveCommand() *command {
	return &command{
		name: "operator root keyring remove", args: "<key ID>", synopsis: "Remove a root key", min: 1, max: 1,
		example: "operator root keyring remove f19f6029",
		help: `Removes a root key that is not active, given by its ID or the beginning of it. A key that encrypts a variable, or that may have
			signed the identity of a running task, is not removed unless -force is given.`,
		setup: func(f *flags) action {
			force := f.Bool("force", "Remove the key although variables become unreadable, or identities invalid.")
			return func(ctx context.Context, c *call) error {
				found, _, err := client.Call(ctx, c.client, op.ListRootKeys, op.Query{Prefix: c.args[0]})
				switch {
				case err != nil:
					return err
				case len(found) == 0:
					return berth.Errorf(berth.NotFound, "No root key with ID or prefix %q found; see %q", c.args[0], c.Name+" operator root keyring list")
				case len(found) > 1:
					return ambiguous("root keys", c.args[0], c.rootKeyRows(found, true))
				}
				if _, _, err := client.Call(ctx, c.client, op.RemoveRootKey, op.RemoveRoot{KeyID: found[0].KeyID.String(), Force: *force}); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Removed root key %s\n", found[0].KeyID)
				return err
			}
		},
	}
}
