# A volume that tasks have as a block device.

id           = "raw"
name         = "raw"
type         = "csi"
plugin_id    = "disk"
capacity_min = "1MiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "block-device"
}
