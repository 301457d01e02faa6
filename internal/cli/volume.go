package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// volumeType declares the flag -type, and refuses types other than host.
func volumeType(f *flags) func(*call) error {
	kind := f.String("type", "The `type` of the volume. Only host is supported.")
	return func(c *call) error {
		if *kind != "" && *kind != berth.VolumeHost {
			return c.usagef("flag -type: %q volumes are not supported: must be host", *kind)
		}
		return nil
	}
}

// volumeFormat is -json beside -type.
func volumeFormat(f *flags) func(*call) (string, error) {
	format, host := jsonFlag(f), volumeType(f)
	return func(c *call) (string, error) {
		if err := host(c); err != nil {
			return "", err
		}
		return format(c)
	}
}

const exampleVolumeHCL = `name = "data"
type = "host"

# The node's plugin that makes the directory. mkdir is built in.
plugin_id = "mkdir"

# Without node_id the servers choose a node of the pool that meets the constraints.
node_pool = "default"
constraint {
  attribute = "${attr.kernel.name}"
  value     = "linux"
}

# How jobs may use the volume; one of these must suit them.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# For the plugin.
parameters {
  mode = "0750"
}
`

const exampleVolumeJSON = `{
  "name": "data",
  "type": "host",
  "plugin_id": "mkdir",
  "node_pool": "default",
  "constraint": [{"attribute": "${attr.kernel.name}", "value": "linux"}],
  "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}],
  "parameters": {"mode": "0750"}
}
`

// volumeFrom reads a specification, and checks what can be checked here.
func volumeFrom(c *call, id string) (*berth.HostVolume, error) {
	file, _, err := c.readFile(c.args[0], "volume specification")
	if err != nil {
		return nil, err
	}
	v, err := jobspec.ParseHostVolume(file)
	if err != nil {
		return nil, withSource(err, file)
	}
	if id != "" {
		v.ID = id
	}
	checked := *v
	checked.PluginID = or(checked.PluginID, "mkdir")
	return v, validate.HostVolume(&checked)
}

// volumeCreateCommand creates a volume.
func volumeCreateCommand() *command {
	return &command{
		name: "volume create", args: "<input>", synopsis: "Create a volume", min: 1, max: 1,
		example: "volume create data.volume.hcl",
		help: `Creates a dynamic host volume from a specification in HCL or JSON: a file or, with "-", standard input. A plugin on the node makes its
			directory. With an ID the volume of that ID is changed. "volume init" writes an example.`,
		setup: func(f *flags) action {
			id := f.String("id", "Change the volume with this `ID` instead of creating one.")
			f.Bool("detach", "Accepted for compatibility: the command returns when the directory exists.")
			f.Bool("policy-override", "Accepted for compatibility: there are no policies to override.")
			return func(ctx context.Context, c *call) error {
				v, err := volumeFrom(c, *id)
				if err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.CreateHostVolume, op.WriteHostVolume{Volume: v})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Created host volume %s with ID %s on node %s\n", out.Volume.Name, out.Volume.ID, out.Volume.NodeID)
				return err
			}
		},
	}
}

// volumeRegisterCommand registers a directory.
func volumeRegisterCommand() *command {
	return &command{
		name: "volume register", args: "<input>", synopsis: "Register a directory of a node as a volume", min: 1, max: 1,
		example: "volume register data.volume.hcl",
		help: `Registers a directory that exists on a node as a dynamic host volume. The specification, in HCL or JSON, needs node_id and host_path.
			Deleting the volume leaves the directory.`,
		setup: func(f *flags) action {
			id := f.String("id", "Change the volume with this `ID` instead of registering one.")
			f.Bool("policy-override", "Accepted for compatibility: there are no policies to override.")
			return func(ctx context.Context, c *call) error {
				v, err := volumeFrom(c, *id)
				if err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.RegisterHostVolume, op.WriteHostVolume{Volume: v})
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Registered host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
				return err
			}
		},
	}
}

// volumeRows are the rows of a table of volumes.
func volumeRows(list []op.HostVolumeStub) [][]string {
	rows := [][]string{{"ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"}}
	for _, v := range list {
		rows = append(rows, []string{v.ID, v.Name, v.Namespace, v.PluginID, v.NodeID.Short(), v.NodePool, v.State})
	}
	return rows
}

// findVolume returns the volume whose ID or name is or begins with text.
func (c *call) findVolume(ctx context.Context, text string) (v op.HostVolume, err error) {
	in := op.VolumesQuery{Type: berth.VolumeHost}
	in.Prefix, in.PerPage = text, candidates+1
	found, _, err := client.Call(ctx, c.client, op.ListVolumes, in)
	if err != nil {
		return v, err
	}
	var exact []op.HostVolumeStub
	for _, x := range found {
		if x.ID == text || x.Name == text {
			exact = append(exact, x)
		}
	}
	if len(exact) == 1 {
		found = exact
	}
	switch len(found) {
	case 0:
		return v, berth.Errorf(berth.NotFound, "No volume with ID, name or prefix %q found; see %q", text, c.Name+" volume status")
	case 1:
		ref := op.VolumeRef{VolumeID: found[0].ID}
		ref.Namespace = found[0].Namespace
		v, _, err = client.Call(ctx, c.client, op.ReadHostVolume, ref)
		return v, err
	}
	return v, ambiguous("volumes", text, volumeRows(found))
}

// volumeStatusCommand shows volumes, or one.
func volumeStatusCommand() *command {
	return &command{
		name: "volume status", args: "[volume]", synopsis: "Show volumes, or one of them", max: 1,
		example: "volume status data",
		help: `Lists the dynamic host volumes, or shows one, given by its ID, its name or the beginning of either: its node, its state, how it may be
			used, and the allocations that use it.`,
		setup: func(f *flags) action {
			l := f.list()
			host := volumeType(f)
			node := f.String("node", "List only the volumes of this `node`, given by its ID, its name or the beginning of either.")
			pool := f.String("node-pool", "List only the volumes of nodes in this `pool`.")
			one := answer(l.data, func(ctx context.Context, c *call) (op.HostVolume, error) { return c.findVolume(ctx, c.args[0]) }, showVolume)
			return func(ctx context.Context, c *call) error {
				if err := host(c); err != nil {
					return err
				}
				if len(c.args) > 0 {
					return one(ctx, c)
				}
				in := op.VolumesQuery{Type: berth.VolumeHost, NodePool: *pool}
				if *node != "" {
					n, err := c.findNode(ctx, *node)
					if err != nil {
						return err
					}
					in.NodeID = n.ID
				}
				return showList(ctx, c, l, op.ListVolumes, &in, &in.Query, "No dynamic host volumes", func(p *page, list []op.HostVolumeStub) { p.table(volumeRows(list)) })
			}
		},
	}
}

// showVolume prints one volume.
func showVolume(_ *call, p *page, v op.HostVolume) {
	capacity := none
	if v.CapacityBytes > 0 {
		capacity = strconv.FormatInt(v.CapacityBytes, 10) + " bytes"
	}
	p.pairs("ID", v.ID, "Name", v.Name, "Namespace", v.Namespace, "Plugin ID", v.PluginID, "Node ID", v.NodeID.String(), "Node Pool", v.NodePool,
		"Capacity", capacity, "State", v.State, "Host Path", v.HostPath)
	if len(v.RequestedCapabilities) > 0 {
		p.heading("Capabilities")
		rows := [][]string{{"Access Mode", "Attachment Mode"}}
		for _, x := range v.RequestedCapabilities {
			rows = append(rows, []string{x.AccessMode, x.AttachmentMode})
		}
		p.table(rows)
	}
	p.heading("Allocations")
	if len(v.Allocations) == 0 {
		p.linef("No allocations use the volume")
		return
	}
	rows := [][]string{{"ID", "Job", "Task Group", "Desired", "Status"}}
	for _, a := range v.Allocations {
		rows = append(rows, []string{a.ID.Short(), string(a.JobID), a.TaskGroup, a.DesiredStatus.String(), a.ClientStatus.String()})
	}
	p.table(rows)
}

// volumeDeleteCommand deletes a volume.
func volumeDeleteCommand() *command {
	return &command{
		name: "volume delete", args: "<volume>", synopsis: "Delete a volume and its data", min: 1, max: 1,
		example: "volume delete 0f83e6a5-9b5b-4d4b-8f0e-6f3b5fd8b0d4",
		help: `Deletes a dynamic host volume, given by its full ID, and what is in its directory. The directory of a registered volume stays. A volume
			that allocations use cannot be deleted.`,
		setup: func(f *flags) action {
			host := volumeType(f)
			force := f.Bool("force", "Forget the volume even if its node does not answer. Its directory then stays there.")
			return func(ctx context.Context, c *call) error {
				if err := host(c); err != nil {
					return err
				}
				if _, _, err := client.Call(ctx, c.client, op.RemoveHostVolume, op.DeleteHostVolume{VolumeID: c.args[0], Force: *force}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted volume %q!\n", c.args[0])
				return err
			}
		},
	}
}

// volumeClaimListCommand lists claims.
func volumeClaimListCommand() *command {
	return &command{
		name: "volume claim list", synopsis: "List the claims on volumes",
		example: "volume claim list -job db",
		help: `Lists the claims of instances on dynamic host volumes. A volume block with sticky makes one: the instance keeps the volume until the claim,
			the volume or the job is deleted.`,
		setup: func(f *flags) action {
			l := f.list()
			job := f.String("job", "List only the claims of this `job`.")
			group := f.String("group", "List only the claims of this task `group`.")
			volume := f.String("volume-name", "List only the claims on volumes of this `name`.")
			return func(ctx context.Context, c *call) error {
				in := op.ClaimsQuery{JobID: *job, TaskGroup: *group, VolumeName: *volume}
				return showList(ctx, c, l, op.ListHostVolumeClaims, &in, &in.Query, "No volume claims", func(p *page, list []*berth.HostVolumeClaim) {
					rows := [][]string{{"ID", "Namespace", "Job", "Task Group", "Alloc ID", "Volume Name", "Volume ID"}}
					for _, x := range list {
						rows = append(rows, []string{x.ID, x.Namespace, x.JobID, x.TaskGroupName, x.AllocID.Short(), x.VolumeName, x.VolumeID})
					}
					p.table(rows)
				})
			}
		},
	}
}

// volumeClaimDeleteCommand deletes a claim. It takes no prefix, as there is no
// confirmation.
func volumeClaimDeleteCommand() *command {
	return &command{
		name: "volume claim delete", args: "<claim>", synopsis: "Delete a claim on a volume", min: 1, max: 1,
		example: "volume claim delete 0f83e6a5-9b5b-4d4b-8f0e-6f3b5fd8b0d4",
		help:    "Deletes a claim, given by its full ID. The next allocation of its instance may use another volume. The volume and its data stay.",
		setup: func(f *flags) action {
			f.Bool("y", "Accepted for compatibility: the full ID is confirmation enough.")
			return func(ctx context.Context, c *call) error {
				if _, _, err := client.Call(ctx, c.client, op.RemoveClaim, op.DeleteClaim{ClaimID: c.args[0]}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted volume claim %q!\n", c.args[0])
				return err
			}
		},
	}
}
