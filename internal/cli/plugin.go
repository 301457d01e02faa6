package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// pluginStatusCommand shows plugins, or one.
func pluginStatusCommand() *command {
	return &command{
		name: "plugin status", args: "[plugin]", synopsis: "Show CSI plugins, or one of them", max: 1,
		example: "plugin status disk",
		help: `Lists the CSI plugins that nodes run, or shows one, given by its ID or the beginning of it: how many nodes have its controller and its node
			part, how many of these are healthy, and its allocations. With -verbose, also what the plugin can do.`,
		setup: func(f *flags) action {
			l := f.list()
			kind := f.String("type", "The `type` of the plugins. The only one is csi.")
			brief := f.Bool("short", "Leave out the allocations of a plugin.")
			verbose := f.Bool("verbose", "Show full IDs, absolute times, and what the plugin can do.")
			one := answer(l.data, func(ctx context.Context, c *call) (op.Plugin, error) { return c.findPlugin(ctx, c.args[0]) },
				func(c *call, p *page, v op.Plugin) { c.showPlugin(p, v, *brief, *verbose) })
			return func(ctx context.Context, c *call) error {
				if *kind != "" && *kind != berth.VolumeCSI {
					return c.usagef("flag -type: must be csi, got %q", *kind)
				}
				if len(c.args) > 0 {
					return one(ctx, c)
				}
				in := op.PluginsQuery{Type: berth.VolumeCSI}
				return showList(ctx, c, l, op.ListPlugins, &in, &in.Query, "No CSI plugins", func(p *page, list []op.PluginStub) { p.table(pluginRows(list)) })
			}
		},
	}
}

// pluginRows are the rows of a table of plugins.
func pluginRows(list []op.PluginStub) [][]string {
	rows := [][]string{{"ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"}}
	for _, x := range list {
		rows = append(rows, []string{
			x.ID, or(x.Provider, none), fmt.Sprintf("%d/%d", x.ControllersHealthy, x.ControllersExpected), fmt.Sprintf("%d/%d", x.NodesHealthy, x.NodesExpected),
		})
	}
	return rows
}

// findPlugin returns the plugin whose ID is or begins with text.
func (c *call) findPlugin(ctx context.Context, text string) (v op.Plugin, err error) {
	in := op.PluginsQuery{Type: berth.VolumeCSI}
	in.Prefix, in.PerPage = text, candidates+1
	found, _, err := client.Call(ctx, c.client, op.ListPlugins, in)
	if err != nil {
		return v, err
	}
	if i := slices.IndexFunc(found, func(x op.PluginStub) bool { return x.ID == text }); i >= 0 {
		found = found[i : i+1]
	}
	switch len(found) {
	case 0:
		return v, berth.Errorf(berth.NotFound, "No CSI plugin with ID or prefix %q found; see %q", text, c.Name+" plugin status")
	case 1:
		v, _, err = client.Call(ctx, c.client, op.ReadPlugin, op.PluginRef{PluginID: found[0].ID})
		return v, err
	}
	return v, ambiguous("plugins", text, pluginRows(found))
}

// showPlugin prints one plugin.
func (c *call) showPlugin(p *page, v op.Plugin, brief, verbose bool) {
	p.pairs("ID", v.ID, "Provider", or(v.Provider, none), "Version", or(v.Version, none),
		"Controllers Healthy", strconv.Itoa(v.ControllersHealthy), "Controllers Expected", strconv.Itoa(v.ControllersExpected),
		"Nodes Healthy", strconv.Itoa(v.NodesHealthy), "Nodes Expected", strconv.Itoa(v.NodesExpected))
	if verbose {
		p.heading("Controller Capabilities")
		p.linef("%s", or(strings.Join(controllerCan(v.Controllers), "\n"), none))
		p.heading("Node Capabilities")
		p.linef("%s", or(strings.Join(nodeCan(v.Nodes), "\n"), none))
	}
	if brief {
		return
	}
	p.heading("Allocations")
	if len(v.Allocations) == 0 {
		p.linef("No allocations run the plugin")
		return
	}
	p.table(c.jobAllocRows(v.Allocations, verbose))
}

// controllerCan returns what the controllers of a plugin can do, in the words of
// the Container Storage Interface.
func controllerCan(all map[string]*berth.CSIInfo) []string {
	can := map[string]bool{}
	for _, x := range all {
		if i := x.ControllerInfo; i != nil {
			for name, yes := range map[string]bool{
				"CREATE_DELETE_VOLUME": i.SupportsCreateDelete, "PUBLISH_UNPUBLISH_VOLUME": i.SupportsAttachDetach, "LIST_VOLUMES": i.SupportsListVolumes,
				"CREATE_DELETE_SNAPSHOT": i.SupportsCreateDeleteSnapshot, "LIST_SNAPSHOTS": i.SupportsListSnapshots, "EXPAND_VOLUME": i.SupportsExpand,
				"CLONE_VOLUME": i.SupportsClone,
			} {
				if yes {
					can[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(can))
}

// nodeCan is controllerCan for the part of a plugin on nodes.
func nodeCan(all map[string]*berth.CSIInfo) []string {
	can := map[string]bool{}
	for _, x := range all {
		if x.NodeInfo != nil && x.NodeInfo.RequiresNodeStageVolume {
			can["STAGE_UNSTAGE_VOLUME"] = true
		}
		if x.NodeInfo != nil && x.NodeInfo.SupportsExpand {
			can["EXPAND_VOLUME"] = true
		}
		if x.RequiresTopologies {
			can["VOLUME_ACCESSIBILITY_CONSTRAINTS"] = true
		}
	}
	return slices.Sorted(maps.Keys(can))
}
