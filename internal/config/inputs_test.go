package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth"
)

// The keys of artifacts and templates have the names and defaults that Nomad
// documents.
func TestInputs(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Client.Inputs; got.HTTPTimeout != 30*time.Minute || got.MaxBytes != 100e9 || got.MaxFiles != 4096 || got.Wait != nil {
		t.Errorf("the defaults are %+v", got)
	}
	c, err = load(t, `client {
  common_plugin_dir = "/opt/plugins"
  artifact {
    http_read_timeout = "5m"
    http_max_size = "1GB"
    git_timeout = "6m"
    s3_timeout = "7m"
    decompression_limit_size = "512MiB"
    decompression_limit_file_count = 10
    disable_filesystem_isolation = true
    disable_artifact_inspection = false
    filesystem_isolation_extra_paths = ["d:r:/opt/certs", "f:rx:/opt/helper"]
    set_environment_variables = "HTTP_PROXY, NO_PROXY"
  }
  template {
    function_denylist = ["plugin", "env"]
    disable_file_sandbox = false
    max_stale = "87600h"
    wait { min = "5s" max = "4m" }
    wait_bounds { min = "1s" max = "1m" }
    nomad_retry { attempts = 12 backoff = "250ms" }
  }
}`)
	if err != nil {
		t.Fatal(err)
	}
	want := Inputs{
		HTTPTimeout: 5 * time.Minute, GitTimeout: 6 * time.Minute, S3Timeout: 7 * time.Minute, MaxBytes: 1e9, MaxUnpacked: 512 << 20, MaxFiles: 10, Open: true,
		Paths: []string{"/opt/certs", "/opt/helper"}, Env: []string{"HTTP_PROXY", "NO_PROXY"}, DenyFunctions: []string{"plugin", "env"},
		Wait: &berth.WaitConfig{Min: 5 * time.Second, Max: 4 * time.Minute}, WaitBounds: &berth.WaitConfig{Min: time.Second, Max: time.Minute},
	}
	if !reflect.DeepEqual(c.Client.Inputs, want) {
		t.Errorf("got  %+v\nwant %+v", c.Client.Inputs, want)
	}
	if c.Client.CommonPluginDir != "/opt/plugins" {
		t.Errorf("common_plugin_dir is %q", c.Client.CommonPluginDir)
	}
	for text, want := range map[string]string{
		`artifact { http_max_size = "much" }`:                         "must be a size of at least 1 byte such as 100GB",
		`artifact { http_max_size = "0" }`:                            "must be a size of at least 1 byte",
		`artifact { decompression_limit_file_count = 0 }`:             "must be at least 1, got 0",
		`artifact { git_timeout = "0s" }`:                             "must be longer than 0s",
		`artifact { disable_artifact_inspection = true }`:             "is not supported: must be false; what is in an artifact is always looked at",
		`artifact { filesystem_isolation_extra_paths = ["d:rw:/x"] }`: "must be of the form f:r:/file or d:r:/directory",
		`template { disable_file_sandbox = true }`:                    "templates never see files outside of the task's directory",
		`template { wait { min = "5s" max = "1s" } }`:                 "max at least min",
		`template { vault_retry { attempts = 3 } }`:                   "templates cannot use Vault",
	} {
		if _, err := load(t, "client {\n"+strings.ReplaceAll(text, "; ", "\n")+"\n}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
