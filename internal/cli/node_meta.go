package cli

import (
	"context"
	"fmt"
	"strings"

	"berth/client"
	"berth/op"
)

// nodeMetaApplyCommand changes the metadata of a node while its agent runs.
func nodeMetaApplyCommand() *command {
	return &command{
		name: "node meta apply", args: "[key=value]...", synopsis: "Change the metadata of a node", max: -1,
		example: "node meta apply -node-id 4d2ba53b -unset old rack=r2",
		help: `Changes the metadata of a node while its agent runs, above that of the agent's configuration. The changes outlive the agent. Jobs
			refer to metadata as ${meta.KEY}; what waits for it is placed, and what runs stays.`,
		setup: func(f *flags) action {
			node := nodeFlag(f)
			unset := f.String("unset", "Remove these `keys`, separated by commas, also those of the configuration.")
			return func(ctx context.Context, c *call) error {
				in, err := metaOf(c, *unset)
				if err != nil {
					return err
				}
				if in.NodeID, err = nodeIn(ctx, c, *node); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.ApplyMeta, in); err != nil {
					return err
				}
				_, err = fmt.Fprintln(c.Out, "Node metadata updated")
				return err
			}
		},
	}
}

// nodeFlag declares the flag that names a node.
func nodeFlag(f *flags) *string {
	return f.String("node-id", "The `node`, by ID, prefix or name. The default is the node of the agent that is called.")
}

// nodeIn returns the ID of the node that a flag names, "" for that of the agent
// that is called.
func nodeIn(ctx context.Context, c *call, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	n, err := c.findNode(ctx, name)
	if err != nil {
		return "", err
	}
	return n.ID.String(), nil
}

// metaOf returns the changes that the command line asks for.
func metaOf(c *call, unset string) (in op.ChangeMeta, err error) {
	in.Meta = map[string]string{}
	for _, arg := range c.args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return in, c.usagef("%q is not of the form key=value", arg)
		}
		in.Meta[k] = v
	}
	for _, k := range strings.FieldsFunc(unset, func(r rune) bool { return r == ',' }) {
		if _, both := in.Meta[k]; both {
			return in, c.usagef("the key %q cannot be both set and removed", k)
		}
		in.Unset = append(in.Unset, k)
	}
	if len(in.Meta)+len(in.Unset) == 0 {
		return in, c.usagef("give at least one key=value, or -unset")
	}
	return in, nil
}

// nodeMetaReadCommand shows the metadata of a node.
func nodeMetaReadCommand() *command {
	return &command{
		name: "node meta read", synopsis: "Show the metadata of a node",
		example: "node meta read -node-id 4d2ba53b",
		help: `Shows the metadata of a node as its agent knows it: all of it, what was changed while the agent ran, and what the agent's
			configuration says.`,
		setup: func(f *flags) action {
			d, node := f.data(), nodeFlag(f)
			return func(ctx context.Context, c *call) error {
				if err := d.check(c); err != nil {
					return err
				}
				id, err := nodeIn(ctx, c, *node)
				if err != nil {
					return err
				}
				m, _, err := client.Call(ctx, c.client, op.ReadMeta, op.NodeTarget{NodeID: id})
				if err != nil {
					return err
				}
				if d.wanted() {
					return d.write(c, m)
				}
				changed := map[string]string{}
				for k, v := range m.Dynamic {
					if changed[k] = "<removed>"; v != nil {
						changed[k] = *v
					}
				}
				p := c.page()
				metaSection(p, "All Meta", m.Meta)
				metaSection(p, "Dynamic Meta", changed)
				metaSection(p, "Static Meta", m.Static)
				return c.show(p)
			}
		},
	}
}

// metaSection adds a section of metadata.
func metaSection(p *page, heading string, m map[string]string) {
	if len(m) == 0 {
		p.heading(heading)
		p.linef("None")
		return
	}
	nodeStatus{}.attributes(p, heading, m)
}
