package real

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A task of another user reaches its directory, below a data directory that the
// agent made together with its parents, and below the one of agent -dev.
func TestATaskOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to start tasks of other users")
	}
	t.Parallel()
	for _, dev := range []bool{false, true} {
		t.Run(map[bool]string{false: "data directory", true: "dev"}[dev], func(t *testing.T) {
			w := newWorld(t)
			// Nobody else enters the directory of the test itself.
			dir, err := os.MkdirTemp("", "users")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Error(err)
				}
			})
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			var a *agent
			if dev {
				a = w.unstarted("one")
				a.Args = append([]string{"-dev"}, "-config", w.file("dev.hcl", fmt.Sprintf(`
ports {
  http = 0
  rpc  = 0
  serf = 0
}
client {
  network_interface = "lo"
  cgroup_parent     = %q
}
plugin "raw_exec" {
  config { enabled = true }
}`, w.CgroupParent())))
			} else {
				a = w.unstarted("one", both, fmt.Sprintf("data_dir = %q", filepath.Join(dir, "a", "b", "c")))
			}
			a.start("TMPDIR=" + dir)
			a.joined()
			if !strings.HasPrefix(a.dataDir, dir+"/") {
				t.Fatalf("its data is in %s", a.dataDir)
			}
			script := `set -eu; test "$(id -un)" = nobody; ls local > /dev/null; echo mine > local/file; stat -c %U local/file`
			a.good("job", "run", "-detach", w.file("user.nomad", `
job "user" {
  type = "batch"
  group "g" {
    restart { attempts = 0 }
    reschedule { attempts = 0 }
    `+sh(script, `user = "nobody"`)+`
  }
}`))
			al := a.end("user")
			out := a.berth("alloc", "logs", al.ID, "main")
			if al.ClientStatus != "complete" || out.Out != "nobody\n" {
				t.Errorf("it is %s, and said %v%v", al.ClientStatus, out, a.berth("alloc", "logs", "-stderr", al.ID, "main"))
			}
		})
	}
}
