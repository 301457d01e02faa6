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

func keyringGenerateCommand() *command {
	return &command{
		name: "operator gossip keyring generate", synopsis: "Make a key for the gossip", local: true,
		help: "Makes a new key, by which servers encrypt what they tell each other: the value of encrypt in the server block.",
		setup: func(*flags) action {
			return func(_ context.Context, c *call) error {
				p := c.page()
				p.linef("%s", daemon.NewGossipKey())
				return c.show(p)
			}
		},
	}
}

func keyringListCommand() *command {
	return &command{
		name: "operator gossip keyring list", synopsis: "List the keys of the gossip",
		help: "Lists the keys that servers hold, how many servers hold each, and how many send with it. It fails if a server does not answer.",
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

func keyringInstallCommand() *command {
	return keyringChange("operator gossip keyring install", "Let servers read with a new key", "Installing new gossip encryption key...", op.InstallKey,
		"Gives all servers a key, so that they can read what is encrypted with it. They go on to send with the key they have.")
}

func keyringUseCommand() *command {
	return keyringChange("operator gossip keyring use", "Let servers send with a key", "Changing primary gossip encryption key...", op.UseKey,
		"Lets all servers send with a key. It must be installed on all of them.")
}

func keyringRemoveCommand() *command {
	return keyringChange("operator gossip keyring remove", "Let servers forget a key", "Removing gossip encryption key...", op.RemoveKey,
		"Lets all servers forget a key. It must not be the one that they send with.")
}

func keyringChange(name, synopsis, says string, o op.Op[op.GossipKey, op.Keyring], help string) *command {
	return &command{
		name: name, args: "<key>", synopsis: synopsis, min: 1, max: 1,
		help: help + " It fails if a server cannot do it, or does not answer.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				p := c.page()
				p.linef("%s", says)
				if err := c.show(p); err != nil {
					return err
				}
				_, _, err := client.Call(ctx, c.client, o, op.GossipKey{Key: c.args[0]})
				return err
			}
		},
	}
}
