id        = "data"
name      = "data"
type      = "csi"
plugin_id = "disk"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
