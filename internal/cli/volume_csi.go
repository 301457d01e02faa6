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

const exampleCSIHCL = `id        = "data"
name      = "data"
type      = "csi"
plugin_id = "disk"

# For "volume register": the provider's ID of the volume.
# external_id = "vol-0f83e6a5"

capacity_min = "1GiB"

# How jobs may use the volume.
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

mount_options {
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}

# For the plugin.
parameters {
  replicas = "2"
}
`

const exampleCSIJSON = `{
  "id": "data",
  "name": "data",
  "type": "csi",
  "plugin_id": "disk",
  "capacity_min": "1GiB",
  "capability": [{"access_mode": "single-node-writer", "attachment_mode": "file-system"}],
  "mount_options": {"fs_type": "ext4", "mount_flags": ["noatime"]},
  "parameters": {"replicas": "2"}
}
`

// writeCSI has the CSI volume of a specification created or registered.
func writeCSI(ctx context.Context, c *call, file jobspec.File, id string, o op.Op[op.WriteCSIVolumes, op.CSIVolumesWritten], said string) error {
	v, err := jobspec.ParseCSIVolume(file)
	if err != nil {
		return withSource(err, file)
	}
	v.ID = or(id, v.ID)
	checked := *v
	checked.Name = or(v.Name, v.ID)
	if err := validate.CSIVolume(&checked); err != nil {
		return err
	}
	out, _, err := client.Call(ctx, c.client, o, op.WriteCSIVolumes{VolumeID: v.ID, Volumes: []*berth.CSIVolume{v}})
	if err != nil {
		return err
	}
	if len(out.Volumes) == 1 {
		v = out.Volumes[0]
	}
	_, err = fmt.Fprintf(c.Out, said, v.ExternalID, v.ID)
	return err
}

// volumeDeregisterCommand forgets a CSI volume.
func volumeDeregisterCommand() *command {
	return &command{
		name: "volume deregister", args: "<volume>", synopsis: "Forget a CSI volume", min: 1, max: 1, list: "volume status",
		example: "volume deregister data",
		help: `Forgets a CSI volume, given by its full ID. Its provider keeps it. A volume with claims is refused. -force drops the claims of allocations
			that have ended and of lost nodes: nothing is unmounted or detached for them any more.`,
		setup: func(f *flags) action {
			force := f.Bool("force", "Drop what ended allocations and lost nodes still hold.")
			return func(ctx context.Context, c *call) error {
				if _, _, err := client.Call(ctx, c.client, op.DeregisterCSIVolume, op.DropCSIVolume{VolumeID: c.args[0], Force: *force}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deregistered volume %q!\n", c.args[0])
				return err
			}
		},
	}
}

// volumeDetachCommand gives up what a node holds.
func volumeDetachCommand() *command {
	return &command{
		name: "volume detach", args: "<volume> <node>", synopsis: "Give up a CSI volume that a node holds", min: 2, max: 2,
		example: "volume detach data 7f0e5b1c",
		help: `Gives up the claims on a CSI volume that a node holds though nothing there uses it: the node is lost, or cannot unmount it. The controller
			then detaches the volume without waiting for the node. Refused while an allocation runs with it. If no controller answers, -force gives
			the claims up without one: first make sure at the provider that the volume is detached.`,
		setup: func(f *flags) action {
			force := f.Bool("force", "Do not wait for the plugin's controller either.")
			return func(ctx context.Context, c *call) error {
				// A node that was purged may still hold something.
				node, err := berth.ParseID[berth.Node](c.args[1])
				if err != nil {
					n, err := c.findNode(ctx, c.args[1])
					if err != nil {
						return err
					}
					node = n.ID
				}
				if _, _, err := client.Call(ctx, c.client, op.DetachVolume, op.DetachCSIVolume{VolumeID: c.args[0], Node: node, Force: *force}); err != nil {
					return c.listed(err, "volume status")
				}
				_, err = fmt.Fprintf(c.Out, "Volume %q is given up by node %s\n", c.args[0], node)
				return err
			}
		},
	}
}
