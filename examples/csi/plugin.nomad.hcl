# A CSI plugin on each node: build it with "go build -o /usr/local/bin/berth-disk ./examples/csi/plugin".
# /srv/disk must be a directory that all nodes share.

job "disk" {
  type = "system"

  group "plugin" {
    task "disk" {
      driver = "raw_exec"

      csi_plugin {
        id   = "disk"
        type = "monolith"
      }

      config {
        command = "/usr/local/bin/berth-disk"
        args    = ["-root", "/srv/disk", "-node", "${node.unique.id}"]
      }
    }
  }
}
