package cli

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"berth/client"
	"berth/internal/daemon"
	"berth/op"
)

// keyringGenerateCommand prints a key and stores nothing.
func keyringGenerateCommand() *command {
	return &command{
		name: "operator gossip keyring generate", synopsis: "Generate a gossip encryption key", local: true,
		example: "operator gossip keyring generate",
		help:    "Prints a new key for the encryption of gossip between servers, for use as encrypt in the server block.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				p := c.page()
				p.linef("%s", daemon.NewGossipKey())
				return c.show(p)
			}
		},
	}
}

// keyringListCommand shows which servers have which key, to see when a rotation
// is complete.
func keyringListCommand() *command {
	return &command{
		name: "operator gossip keyring list", synopsis: "List the gossip encryption keys",
		example: "operator gossip keyring list",
		help: `Lists the keys that servers have installed, with the number of servers that have each key and that use it as primary. Fails if a
			server does not answer.`,
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				out, _, err := client.Call(ctx, c.client, op.ListKeys, op.Query{})
				if err != nil {
					return err
				}
				p := c.page()
				p.linef("Gathering installed encryption keys...")
				rows := [][]string{{"Key", "Servers", "Primary"}}
				of := func(n int) string { return strconv.Itoa(n) + "/" + strconv.Itoa(out.NumNodes) }
				for _, k := range slices.Sorted(maps.Keys(out.Keys)) {
					rows = append(rows, []string{k, of(out.Keys[k]), of(out.PrimaryKeys[k])})
				}
				p.table(rows)
				return c.show(p)
			}
		},
	}
}

// keyringInstallCommand is the first step of a rotation.
func keyringInstallCommand() *command {
	return keyringChange("operator gossip keyring install", "Install a gossip encryption key", "Installing new gossip encryption key...", op.InstallKey,
		"Installs a key on all servers, so that they can decrypt messages that use it. They keep encrypting with their primary key.")
}

// keyringUseCommand is the second step of a rotation.
func keyringUseCommand() *command {
	return keyringChange("operator gossip keyring use", "Make a gossip encryption key the primary one", "Changing primary gossip encryption key...", op.UseKey,
		"Makes all servers encrypt with a key. It must be installed on all of them.")
}

// keyringRemoveCommand is the last step of a rotation.
func keyringRemoveCommand() *command {
	return keyringChange("operator gossip keyring remove", "Remove a gossip encryption key", "Removing gossip encryption key...", op.RemoveKey,
		"Removes a key from all servers. It must not be the primary key.")
}

// keyringChange returns a command that applies o to the key in the argument. It
// prints notice first, as servers take a moment to answer.
func keyringChange(name, synopsis, notice string, o op.Op[op.GossipKey, op.Keyring], help string) *command {
	return &command{
		name: name, args: "<key>", synopsis: synopsis, min: 1, max: 1,
		example: name + ` "$KEY"`,
		help:    help + " Fails if a server cannot do so or does not answer.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				p := c.page()
				p.linef("%s", notice)
				if err := c.show(p); err != nil {
					return err
				}
				_, _, err := client.Call(ctx, c.client, o, op.GossipKey{Key: c.args[0]})
				return err
			}
		},
	}
}
