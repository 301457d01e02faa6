package gossip

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
)

// A server that was alone does not warn that it finds nobody again; one that knew
// others does.
func TestALoneServerDoesNotWarn(t *testing.T) {
	for _, c := range []struct {
		name, file string
		rejoin     bool
		knew       bool
	}{
		{name: "first start"},
		{name: "itself", file: "alive: a.global 127.0.0.1:4648\nclock: 3\n"},
		{name: "another", file: "alive: a.global 127.0.0.1:4648\nalive: b.global 127.0.0.1:4649\n", knew: true},
		{name: "another that went", file: "alive: b.global 127.0.0.1:4649\nnot-alive: b.global\n"},
		{name: "it left", file: "alive: b.global 127.0.0.1:4649\nleave\n"},
		{name: "it left and comes back", file: "alive: b.global 127.0.0.1:4649\nleave\n", rejoin: true, knew: true},
		{name: "cut", file: "alive: b.glo"},
	} {
		conf := Config{Dir: t.TempDir(), RejoinAfterLeave: c.rejoin}
		if c.file != "" {
			if err := os.WriteFile(conf.snapshotPath(), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		newLogger(slog.New(slog.NewTextHandler(&out, nil)), conf.knewOthers("a.global")).Print("[WARN] serf: Failed to re-join any previously known node")
		if warns := strings.Contains(out.String(), "level=WARN"); warns != c.knew {
			t.Errorf("%s: it warns: %t, want %t", c.name, warns, c.knew)
		}
	}
	if (&Config{}).knewOthers("a.global") {
		t.Error("without a directory it knew others")
	}
}
