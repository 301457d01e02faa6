package claim

import (
	"os"
	"path/filepath"
)

// MakeDir makes a directory of an agent with these permissions, unless it is
// there. Directories above it that are missing let others pass, but not look:
// tasks of other users must get to their own directories.
func MakeDir(dir string, perm os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return err
	}
	return os.MkdirAll(dir, perm)
}
