# Counts its starts at the beginning of a block device, which moves with it.

job "raw" {
  group "raw" {
    volume "disk" {
      type            = "csi"
      source          = "raw"
      access_mode     = "single-node-writer"
      attachment_mode = "block-device"
    }

    task "count" {
      driver = "exec"

      volume_mount {
        volume      = "disk"
        destination = "/dev/raw"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "n=$(head -c 8 /dev/raw | tr -d '\\0 '); printf '%-8s' $((n + 1)) | dd of=/dev/raw conv=fsync; exec sleep 1000000"]
      }
    }
  }
}
