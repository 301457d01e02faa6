# Counts its starts in a CSI volume, which moves with it.

job "counter" {
  group "counter" {
    volume "data" {
      type            = "csi"
      source          = "data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    task "count" {
      driver = "exec"

      volume_mount {
        volume      = "data"
        destination = "/data"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo start >> /data/starts; wc -l < /data/starts; exec sleep 1000000"]
      }
    }
  }
}
