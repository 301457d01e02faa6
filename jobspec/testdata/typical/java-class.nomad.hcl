# A Java program whose source is in the job: compiled before it runs.
job "java-class" {
  type = "batch"

  constraint {
    attribute = "${attr.driver.java}"
    value     = "1"
  }

  group "hello" {
    task "compile" {
      driver = "raw_exec"

      lifecycle {
        hook    = "prestart"
        sidecar = false
      }

      template {
        destination = "${NOMAD_ALLOC_DIR}/data/Hello.java"
        data        = <<EOF
public class Hello {
    public static void main(String[] args) {
        System.out.println("hello from Java " + args[0]);
    }
}
EOF
      }

      config {
        command = "javac"
        args    = ["-d", "${NOMAD_ALLOC_DIR}/data", "${NOMAD_ALLOC_DIR}/data/Hello.java"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }

    task "run" {
      driver = "java"

      config {
        class       = "Hello"
        class_path  = "/alloc/data"
        args        = ["${NOMAD_TASK_NAME}"]
        jvm_options = ["-Xmx64m"]
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
