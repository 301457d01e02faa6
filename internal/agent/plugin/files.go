package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"berth"
)

// maxPlugins is how many programs a directory may have.
const maxPlugins = 64

// programs returns the programs in the directory of plugins, by name. Each runs
// with the agent's rights, so nobody else may be able to write it.
func programs(dir string) (map[string]string, error) {
	out := map[string]string{}
	if dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("plugin_dir: %w", err)
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	for _, e := range entries {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("plugin_dir: %w", err)
		}
		st, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("plugin_dir: %w", err)
		}
		if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
			continue // a directory, or a text that explains the plugins
		}
		if err := ours(path); err != nil {
			return nil, err
		}
		if out[e.Name()] = path; len(out) > maxPlugins {
			return nil, berth.Errorf(berth.Invalid, "plugin_dir: %s has more than %d programs", dir, maxPlugins)
		}
	}
	return out, nil
}

// ours returns an error if others than root and the agent's user can change a
// file or directory.
func ours(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("plugin_dir: %w", err)
	}
	of, _ := st.Sys().(*syscall.Stat_t)
	switch {
	case st.Mode()&0o022 != 0:
		return berth.Errorf(berth.Denied, "plugin_dir: others may write %s (mode %04o), and it would run with the agent's rights; to change that: chmod go-w %s", path, st.Mode().Perm(), path)
	case of != nil && !slices.Contains([]int{0, os.Geteuid()}, int(of.Uid)):
		return berth.Errorf(berth.Denied, "plugin_dir: %s belongs to user %d, and it would run with the agent's rights; it must belong to root or the agent's user", path, of.Uid)
	}
	return nil
}
