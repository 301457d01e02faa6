package gossip

import (
	"os"
	"path/filepath"
	"strings"
)

// snapshotPath returns the file in which serf keeps the members that it knows.
func (c *Config) snapshotPath() string { return filepath.Join(c.Dir, "snapshot") }

// knewOthers reports whether the server knew members of other names when it was
// last up, as far as serf has written them down. The format of the file is that
// of serf's snapshots: one change on a line, the oldest first.
func (c *Config) knewOthers(self string) bool {
	if c.Dir == "" {
		return false
	}
	b, err := os.ReadFile(c.snapshotPath())
	if err != nil {
		return false
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "alive: "); ok {
			if name, _, ok := strings.Cut(rest, " "); ok && name != self {
				known[name] = true
			}
		} else if name, ok := strings.CutPrefix(line, "not-alive: "); ok {
			delete(known, name)
		} else if line == "leave" && !c.RejoinAfterLeave {
			clear(known)
		}
	}
	return len(known) > 0
}
