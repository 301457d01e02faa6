package cli

import (
	"context"
	"fmt"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// volumeFormat is -json and -type: host or csi.
func volumeFormat(f *flags) func(*call) (string, error) {
	format, kind := jsonFlag(f), f.String("type", "The `type` of the volume: host, the default, or csi.")
	return func(c *call) (string, error) {
		out, err := format(c)
		switch *kind {
		case "", berth.VolumeHost:
			return out, err
		case berth.VolumeCSI:
			return "csi." + out, err
		}
		return "", c.usagef("flag -type: must be host or csi, got %q", *kind)
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
func volumeFrom(file jobspec.File, id string) (*berth.HostVolume, error) {
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
			directory. With an ID the volume of that ID is changed. With type = "csi" the controller of a CSI plugin has its provider make the volume;
			one that exists is made larger if capacity_min asks for more. "volume init" writes an example.`,
		setup: func(f *flags) action {
			id := f.String("id", "Change the volume with this `ID` instead of creating one.")
			f.Bool("detach", "Accepted for compatibility: the command returns when the directory exists.")
			f.Bool("policy-override", "Accepted for compatibility: there are no policies to override.")
			return func(ctx context.Context, c *call) error {
				file, _, err := c.readFile(c.args[0], "volume specification")
				if err == nil && jobspec.IsCSIVolume(file) {
					return writeCSI(ctx, c, file, *id, op.CreateCSIVolume, "Created external volume %s with ID %s\n")
				}
				if err != nil {
					return err
				}
				v, err := volumeFrom(file, *id)
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
			Deleting the volume leaves the directory. With type = "csi" a volume is registered that its provider has; it needs external_id.`,
		setup: func(f *flags) action {
			id := f.String("id", "Change the volume with this `ID` instead of registering one.")
			f.Bool("policy-override", "Accepted for compatibility: there are no policies to override.")
			return func(ctx context.Context, c *call) error {
				file, _, err := c.readFile(c.args[0], "volume specification")
				if err == nil && jobspec.IsCSIVolume(file) {
					return writeCSI(ctx, c, file, *id, op.RegisterCSIVolume, "Registered external volume %s with ID %s\n")
				}
				if err != nil {
					return err
				}
				v, err := volumeFrom(file, *id)
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

// volumeDeleteCommand deletes a volume.
func volumeDeleteCommand() *command {
	return &command{
		name: "volume delete", args: "<volume>", synopsis: "Delete a volume and its data", min: 1, max: 1, list: "volume status",
		example: "volume delete 0f83e6a5-9b5b-4d4b-8f0e-6f3b5fd8b0d4",
		help: `Deletes a dynamic host volume, given by its full ID, and what is in its directory. The directory of a registered volume stays. A volume
			that allocations use cannot be deleted. The volume of a CSI plugin, given by its ID or the provider's, is deleted by its provider. Without
			-type, a volume is a CSI volume if no host volume has its ID.`,
		setup: func(f *flags) action {
			kind := f.String("type", "The `type` of the volume: host or csi.")
			secrets := f.secretFlag()
			force := f.Bool("force", "Forget the volume even if its node does not answer. Its directory then stays there.")
			return func(ctx context.Context, c *call) error {
				given, err := secrets(c)
				if err != nil {
					return err
				}
				isCSI, err := c.isCSI(ctx, *kind, c.args[0])
				switch {
				case err != nil:
				case isCSI:
					_, _, err = client.Call(ctx, c.client, op.RemoveCSIVolume, op.DropCSIVolume{VolumeID: c.args[0], Secrets: given})
				default:
					_, _, err = client.Call(ctx, c.client, op.RemoveHostVolume, op.DeleteHostVolume{VolumeID: c.args[0], Force: *force})
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Successfully deleted volume %q!\n", c.args[0])
				return err
			}
		},
	}
}

// isCSI reports whether the volume with an ID is of type csi, if kind does not say
// so.
func (c *call) isCSI(ctx context.Context, kind, id string) (bool, error) {
	switch kind {
	case berth.VolumeHost, berth.VolumeCSI:
		return kind == berth.VolumeCSI, nil
	case "":
		_, _, err := client.Call(ctx, c.client, op.ReadHostVolume, op.VolumeRef{VolumeID: id})
		if berth.KindOf(err) == berth.NotFound || berth.KindOf(err) == berth.Denied { // who may not read it may not delete it either
			return true, nil
		}
		return false, err
	}
	return false, c.usagef("flag -type: must be host or csi, got %q", kind)
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
		name: "volume claim delete", args: "<claim>", synopsis: "Delete a claim on a volume", min: 1, max: 1, list: "volume claim list",
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
