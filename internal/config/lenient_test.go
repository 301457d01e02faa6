package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadText loads a configuration of one file with the text.
func loadText(t *testing.T, text string, o Overrides) *Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load([]string{file}, o)
	if err != nil {
		t.Fatal(err)
	}
	if c.TempData {
		t.Cleanup(func() { os.RemoveAll(c.DataDir) })
	}
	return c
}

// -dev runs a server and a client even if a file disables one.
func TestDevRunsBothWhateverAFileSays(t *testing.T) {
	c := loadText(t, "client {\n enabled = false\n}\nserver {\n enabled = false\n}", Overrides{Dev: true})
	if !c.Client.Enabled || !c.Server.Enabled {
		t.Errorf("client %v, server %v", c.Client.Enabled, c.Server.Enabled)
	}
}

// client.options is a free map: keys without effect get a warning.
func TestUnknownClientOptionsAreWarnings(t *testing.T) {
	c := loadText(t, "client {\n options {\n \"test.slow\" = \"1\"\n \"driver.raw_exec.enable\" = \"0\"\n}\n}", Overrides{Dev: true})
	if w := strings.Join(c.Warnings, "\n"); !strings.Contains(w, "client.options.test.slow has no effect") || strings.Contains(w, "raw_exec.enable has no effect") {
		t.Errorf("warnings: %q", w)
	}
	if c.Plugins.RawExec {
		t.Error("raw_exec is enabled")
	}
}
