package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// volumeStatus are the flags of volume status.
type volumeStatus struct {
	list           listFlags
	kind           *string
	short, verbose *bool
	plugin         *string
	node, pool     *string
}

// volumeStatusCommand shows volumes, or one.
func volumeStatusCommand() *command {
	return &command{
		name: "volume status", args: "[volume]", synopsis: "Show volumes, or one of them", max: 1,
		example: "volume status data",
		help: `Lists volumes, or shows one, given by its ID, its name or the beginning of either: where it is, how it may be used, and the allocations
			that use it. With -verbose, a list also has what the providers of CSI plugins have, whether it is registered or not.`,
		setup: func(f *flags) action {
			s := &volumeStatus{
				list:    f.list(),
				kind:    f.String("type", "Only volumes of this `type`: host or csi."),
				short:   f.Bool("short", "Leave out the claims and allocations of a volume."),
				verbose: f.Bool("verbose", "Show full IDs and absolute times, and ask providers for their volumes."),
				plugin:  f.String("plugin_id", "List only the volumes of this `plugin`."),
				node:    f.String("node", "List only the volumes of this `node`, given by its ID, its name or the beginning of either."),
				pool:    f.String("node-pool", "List only the host volumes of nodes in this `pool`."),
			}
			one := answer(s.list.data, s.find, s.show)
			return func(ctx context.Context, c *call) error {
				if *s.kind != "" && *s.kind != berth.VolumeHost && *s.kind != berth.VolumeCSI {
					return c.usagef("flag -type: must be host or csi, got %q", *s.kind)
				}
				if len(c.args) > 0 {
					return one(ctx, c)
				}
				return s.showAll(ctx, c)
			}
		},
	}
}

// kinds are the types of volumes that are asked for, in the order in which they
// are shown.
func (s *volumeStatus) kinds() []string {
	if *s.kind != "" {
		return []string{*s.kind}
	}
	return []string{berth.VolumeCSI, berth.VolumeHost}
}

// find returns the volume that the argument names.
func (s *volumeStatus) find(ctx context.Context, c *call) (v any, err error) {
	text := c.args[0]
	var found []op.HostVolumeStub
	for _, kind := range s.kinds() {
		in := op.VolumesQuery{Type: kind, PluginID: *s.plugin}
		in.Prefix, in.PerPage = text, candidates+1
		list, _, err := client.Call(ctx, c.client, op.ListVolumes, in)
		if err != nil {
			return v, err
		}
		found = append(found, list...)
	}
	exact := slices.DeleteFunc(slices.Clone(found), func(x op.HostVolumeStub) bool { return x.ID != text && x.Name != text })
	if len(exact) == 1 {
		found = exact
	}
	switch len(found) {
	case 0:
		return v, berth.Errorf(berth.NotFound, "No volume with ID, name or prefix %q found; see %q", text, c.Name+" volume status")
	case 1:
		return c.readVolume(ctx, found[0])
	}
	rows := [][]string{{"ID", "Name", "Namespace", "Type", "Plugin ID"}}
	for _, x := range found {
		kind := berth.VolumeHost
		if x.CSIStub != nil {
			kind = berth.VolumeCSI
		}
		rows = append(rows, []string{x.ID, x.Name, x.Namespace, kind, x.PluginID})
	}
	return v, ambiguous("volumes", text, rows)
}

// readVolume returns a volume of a list in full.
func (c *call) readVolume(ctx context.Context, x op.HostVolumeStub) (any, error) {
	if x.CSIStub != nil {
		ref := op.CSIVolumeRef{VolumeID: x.ID}
		ref.Namespace = x.Namespace
		v, _, err := client.Call(ctx, c.client, op.ReadCSIVolume, ref)
		return v, err
	}
	ref := op.VolumeRef{VolumeID: x.ID}
	ref.Namespace = x.Namespace
	v, _, err := client.Call(ctx, c.client, op.ReadHostVolume, ref)
	return v, err
}

// show prints one volume.
func (s *volumeStatus) show(c *call, p *page, v any) {
	switch v := v.(type) {
	case op.CSIVolume:
		if v.CSIVolume != nil {
			s.showCSI(c, p, v)
		}
	case op.HostVolume:
		s.showHost(c, p, v)
	}
}

// showHost prints a dynamic host volume.
func (s *volumeStatus) showHost(c *call, p *page, v op.HostVolume) {
	p.pairs("ID", v.ID, "Name", v.Name, "Namespace", v.Namespace, "Plugin ID", v.PluginID, "Node ID", v.NodeID.String(), "Node Pool", v.NodePool,
		"Capacity", byteSize(v.CapacityBytes), "State", v.State, "Host Path", v.HostPath)
	if len(v.RequestedCapabilities) > 0 {
		p.heading("Capabilities")
		rows := [][]string{{"Access Mode", "Attachment Mode"}}
		for _, x := range v.RequestedCapabilities {
			rows = append(rows, []string{x.AccessMode, x.AttachmentMode})
		}
		p.table(rows)
	}
	s.showUsers(c, p, v.Allocations)
}

// showUsers prints the allocations that use a volume.
func (s *volumeStatus) showUsers(c *call, p *page, list []op.AllocStub) {
	if *s.short {
		return
	}
	p.heading("Allocations")
	if len(list) == 0 {
		p.linef("No allocations use the volume")
		return
	}
	p.table(c.jobAllocRows(list, *s.verbose))
}

// showCSI prints a CSI volume.
func (s *volumeStatus) showCSI(c *call, p *page, v op.CSIVolume) {
	p.pairs("ID", v.ID, "Name", v.Name, "Namespace", v.Namespace, "External ID", or(v.ExternalID, none), "Plugin ID", v.PluginID,
		"Provider", or(v.Provider, none), "Version", or(v.ProviderVersion, none), "Capacity", byteSize(v.Capacity), "Schedulable", strconv.FormatBool(v.Schedulable),
		"Controllers Healthy", strconv.Itoa(v.ControllersHealthy), "Controllers Expected", strconv.Itoa(v.ControllersExpected),
		"Nodes Healthy", strconv.Itoa(v.NodesHealthy), "Nodes Expected", strconv.Itoa(v.NodesExpected),
		"Access Mode", or(v.AccessMode, none), "Attachment Mode", or(v.AttachmentMode, none), "Mount Options", mountOptions(v.MountOptions))
	if len(v.Topologies) > 0 {
		p.heading("Topologies")
		p.table(topologyRows(v.Topologies))
	}
	if len(v.Claims) > 0 && !*s.short {
		p.heading("Claims")
		rows := [][]string{{"Alloc ID", "Node ID", "Access", "State"}}
		for _, x := range v.Claims {
			access := "write"
			if x.ReadOnly {
				access = "read"
			}
			rows = append(rows, []string{short(x.AllocID.String(), *s.verbose), short(x.NodeID.String(), *s.verbose), access, x.State})
		}
		p.table(rows)
	}
	s.showUsers(c, p, v.Allocations)
}

// mountOptions shows how a volume is mounted.
func mountOptions(m *berth.CSIMountOptions) string {
	var out []string
	if m != nil && m.FSType != "" {
		out = append(out, "fs_type: "+m.FSType)
	}
	if m != nil && len(m.MountFlags) > 0 {
		out = append(out, "flags: "+strings.Join(m.MountFlags, ", "))
	}
	return or(strings.Join(out, " "), none)
}

// topologyRows are the rows of a table of topologies.
func topologyRows(list []berth.CSITopology) [][]string {
	rows := [][]string{{"Topology", "Segments"}}
	for i, t := range list {
		rows = append(rows, []string{strconv.Itoa(i), segments(t)})
	}
	return rows
}

// segments shows a topology.
func segments(t berth.CSITopology) string {
	var out []string
	for k, v := range t.Segments {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// showAll lists volumes, one section for each type. Pages are of one type.
func (s *volumeStatus) showAll(ctx context.Context, c *call) error {
	if err := s.list.data.check(c); err != nil {
		return err
	}
	in := op.VolumesQuery{NodePool: *s.pool, PluginID: *s.plugin}
	if err := s.list.page.query(c, &in.Query); err != nil {
		return err
	}
	if *s.kind == "" && (in.PerPage > 0 || in.NextToken != "") {
		return c.usagef("flags -per-page and -page-token need -type")
	}
	if *s.node != "" {
		n, err := c.findNode(ctx, *s.node)
		if err != nil {
			return err
		}
		in.NodeID = n.ID
	}
	p, all, next := c.page(), []op.HostVolumeStub{}, ""
	for _, in.Type = range s.kinds() {
		list, meta, err := client.Call(ctx, c.client, op.ListVolumes, in)
		if err != nil {
			return err
		}
		all, next = append(all, list...), meta.NextToken
		s.section(p, in.Type, list)
	}
	if s.list.data.wanted() {
		return s.list.data.write(c, all)
	}
	if *s.verbose && *s.kind != berth.VolumeHost {
		if err := s.showExternal(ctx, c, p); err != nil {
			return err
		}
	}
	c.paged(p, next)
	return c.show(p)
}

// section prints the volumes of a type.
func (s *volumeStatus) section(p *page, kind string, list []op.HostVolumeStub) {
	title, nothing := "Dynamic Host Volumes", "No dynamic host volumes"
	rows := [][]string{{"ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"}}
	if kind == berth.VolumeCSI {
		title, nothing = "Container Storage Interface", "No CSI volumes"
		rows = [][]string{{"ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode"}}
	}
	if *s.kind == "" {
		p.heading(title)
	}
	for _, v := range list {
		row := []string{short(v.ID, *s.verbose), v.Name, v.Namespace, v.PluginID, short(v.NodeID.String(), *s.verbose), v.NodePool, v.State}
		if x := v.CSIStub; x != nil {
			row = []string{v.ID, v.Name, v.Namespace, v.PluginID, strconv.FormatBool(x.Schedulable), or(x.AccessMode, none)}
		}
		rows = append(rows, row)
	}
	if len(list) == 0 {
		p.linef("%s", nothing)
	} else {
		p.table(rows)
	}
}

// showExternal lists what the providers of plugins have. A plugin that cannot tell
// is no reason to show nothing.
func (s *volumeStatus) showExternal(ctx context.Context, c *call, p *page) error {
	plugins, _, err := client.Call(ctx, c.client, op.ListPlugins, op.PluginsQuery{Type: berth.VolumeCSI})
	if err != nil {
		return err
	}
	for _, x := range plugins {
		if *s.plugin != "" && *s.plugin != x.ID {
			continue
		}
		p.heading("Volumes of the provider of " + x.ID)
		rows := [][]string{{"External ID", "Condition", "Nodes"}}
		in := op.ExternalQuery{PluginID: x.ID}
		for {
			out, _, err := client.Call(ctx, c.client, op.ListExternalVolumes, in)
			if err != nil {
				p.linef("It cannot be asked: %v", err)
				break
			}
			for _, v := range out.Volumes {
				condition := "OK"
				if v.IsAbnormal {
					condition = "Abnormal (" + v.Status + ")"
				}
				rows = append(rows, []string{cutID(v.ExternalID, *s.verbose), condition, strings.Join(v.PublishedExternalNodeIDs, ", ")})
			}
			if in.NextToken = out.NextToken; in.NextToken == "" {
				p.table(rows)
				break
			}
		}
	}
	return nil
}
