package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// namespaceListCommand lists the namespaces.
func namespaceListCommand() *command {
	return &command{
		name: "namespace list", synopsis: "List namespaces",
		example: "namespace list",
		help:    "Lists the namespaces. With access control, those in which the token may do anything.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListNamespaces, &in, &in, "No namespaces found", func(p *page, list []*berth.Namespace) {
					p.table(namespaceRows(list))
				})
			}
		},
	}
}

// namespaceRows are the rows of a table of namespaces.
func namespaceRows(list []*berth.Namespace) [][]string {
	rows := [][]string{{"Name", "Description"}}
	for _, n := range list {
		rows = append(rows, []string{n.Name, or(n.Description, none)})
	}
	return rows
}

// namespaceStatusCommand shows one namespace, by name or prefix.
func namespaceStatusCommand() *command {
	return &command{
		name: "namespace status", args: "<namespace>", synopsis: "Show a namespace", min: 1, max: 1,
		example: "namespace status team-a",
		help:    "Shows a namespace: its description, its metadata, its extra claims, and which drivers, network modes and node pools its jobs may use.",
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (n namespaceState, err error) {
				if n.Namespace, err = c.findNamespace(ctx, c.args[0]); err == nil && n.Quota != "" {
					n.used, n.hidden = c.readUsage(ctx, n.Quota)
				}
				return n, err
			}
			return answer(data, read, func(_ *call, p *page, n namespaceState) {
				caps, pools := n.Capabilities, n.NodePoolConfiguration
				if caps == nil {
					caps = &berth.NamespaceCapabilities{}
				}
				list := func(names []string, otherwise string) string { return or(strings.Join(names, ", "), otherwise) }
				p.pairs("Name", n.Name, "Description", or(n.Description, none), "Quota", or(n.Quota, none),
					"Enabled Drivers", list(caps.EnabledTaskDrivers, "*"), "Disabled Drivers", list(caps.DisabledTaskDrivers, none),
					"Enabled Network Modes", list(caps.EnabledNetworkModes, "*"), "Disabled Network Modes", list(caps.DisabledNetworkModes, none))
				p.heading("Metadata")
				if len(n.Meta) == 0 {
					p.linef("No metadata")
				} else {
					p.pairs(pairsOf(n.Meta)...)
				}
				p.claims("Required Extra Claims", n.RequiredExtraClaims)
				p.claims("Optional Extra Claims", n.OptionalExtraClaims)
				if n.Quota != "" {
					p.heading("Quota Limits")
					if n.hidden != nil {
						p.linef("%s", n.hidden)
					} else {
						p.table(quotaLimitRows(n.used))
					}
				}
				p.heading("Node Pool Configuration")
				if pools == nil {
					p.pairs("Default", n.DefaultPool(), "Allowed", "*", "Denied", none)
					return
				}
				allowed := list(pools.Allowed, "*")
				if pools.Allowed != nil && len(pools.Allowed) == 0 {
					allowed = none
				}
				p.pairs("Default", n.DefaultPool(), "Allowed", allowed, "Denied", list(pools.Denied, none))
			})
		},
	}
}

// claims shows the extra claims of a namespace, if it has some.
func (p *page) claims(heading string, claims map[string]string) {
	if len(claims) > 0 {
		p.heading(heading)
		p.pairs(pairsOf(claims)...)
	}
}

// pairsOf returns the keys of a map in order, each with its value.
func pairsOf(m map[string]string) (kv []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		kv = append(kv, k, m[k])
	}
	return kv
}

// namespaceState is a namespace with what is used of its quota, or why that is
// not shown.
type namespaceState struct {
	*berth.Namespace
	used   quotaState
	hidden error
}

// namespaceInspectCommand shows a namespace as JSON.
func namespaceInspectCommand() *command {
	return &command{
		name: "namespace inspect", args: "<namespace>", synopsis: "Show a namespace as JSON", min: 1, max: 1,
		example: "namespace inspect team-a",
		help:    "Shows everything that is stored of a namespace, as JSON or formatted with a template.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				n, err := c.findNamespace(ctx, c.args[0])
				switch {
				case err != nil:
					return err
				case *data.template != "":
					return data.write(c, n)
				}
				return c.json(n)
			}
		},
	}
}

// findNamespace returns the namespace whose name is or begins with text.
func (c *call) findNamespace(ctx context.Context, text string) (*berth.Namespace, error) {
	found, _, err := client.Call(ctx, c.client, op.ListNamespaces, op.Query{Prefix: text, PerPage: candidates + 1})
	if err != nil {
		return nil, err
	}
	for _, n := range found {
		if n.Name == text {
			return n, nil
		}
	}
	switch len(found) {
	case 0:
		return nil, berth.Errorf(berth.NotFound, "No namespace with name or prefix %q found; see %q", text, c.Name+" namespace list")
	case 1:
		return found[0], nil
	}
	return nil, ambiguous("namespaces", text, namespaceRows(found))
}

// namespaceApplyCommand writes a namespace, from a file or from flags.
func namespaceApplyCommand() *command {
	return &command{
		name: "namespace apply", args: "<input>", synopsis: "Create or update a namespace", min: 1, max: 1,
		example: "namespace apply -description 'Team A' team-a",
		help: `Creates or changes a namespace. If a file of that name exists, or for "-" standard input, it is a specification in HCL or JSON, and
			settings that it omits are reset. Otherwise the input is the name of a namespace, and the flags are its settings: those that are
			not given stay as they are.`,
		setup: func(f *flags) action {
			isJSON := f.Bool("json", "Require a specification in JSON. Without this flag, HCL and JSON are both accepted.")
			description := f.String("description", "The `description` of the namespace.")
			quota := f.String("quota", "The `quota` that limits what the namespace uses; \"\" for none.")
			return func(ctx context.Context, c *call) error {
				n, err := c.readNamespace(ctx, c.args[0], *isJSON)
				if err != nil {
					return err
				}
				if f.given("description") {
					n.Description = *description
				}
				if f.given("quota") {
					n.Quota = *quota
				}
				if err := validate.Namespace(n); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.CreateNamespace, op.WriteNamespace{Namespace: *n}); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Successfully applied namespace %q!\n", n.Name)
				return err
			}
		},
	}
}

// readNamespace returns the namespace that an argument describes: by a file, or
// by the name of one that may exist.
func (c *call) readNamespace(ctx context.Context, arg string, isJSON bool) (*berth.Namespace, error) {
	if _, err := os.Stat(c.path(arg)); arg != "-" && !isJSON && errors.Is(err, fs.ErrNotExist) {
		n, _, err := client.Call(ctx, c.client, op.ReadNamespace, op.NamespaceRef{Name: arg})
		if berth.KindOf(err) == berth.NotFound {
			return &berth.Namespace{Name: arg}, nil
		}
		return n, err
	}
	return readSpec(c, arg, "namespace", isJSON, jobspec.ParseNamespace)
}

// namespaceDeleteCommand deletes a namespace. It takes no prefix, as there is no
// confirmation.
func namespaceDeleteCommand() *command {
	return &command{
		name: "namespace delete", args: "<namespace>", synopsis: "Delete an unused namespace", min: 1, max: 1, list: "namespace list",
		example: "namespace delete team-a",
		help:    "Deletes a namespace, given by its full name. One that has jobs cannot be deleted, nor can the default one.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				name := c.args[0]
				if _, _, err := client.Call(ctx, c.client, op.RemoveNamespace, op.DeleteNamespace{Name: name}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted namespace %q!\n", name)
				return err
			}
		},
	}
}
