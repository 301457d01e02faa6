# The part of the CSI plugin that each node needs. It mounts, so it is privileged.
job "csi-nodes" {
  datacenters = ["dc1"]
  type        = "system"

  group "nodes" {
    task "plugin" {
      driver = "docker"

      config {
        image      = "public.ecr.aws/ebs-csi-driver/aws-ebs-csi-driver:v1.34.0"
        args       = ["node", "--endpoint=${CSI_ENDPOINT}", "--logtostderr", "--v=5"]
        privileged = true
      }

      csi_plugin {
        id                     = "aws-ebs0"
        type                   = "node"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
