package hostile

import (
	"io/fs"
	"syscall"
)

// owner is the user and group of a file.
func owner(st fs.FileInfo) [2]uint32 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return [2]uint32{s.Uid, s.Gid}
	}
	return [2]uint32{}
}
