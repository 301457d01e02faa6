package op

import (
	"strings"

	"berth"
	"berth/internal/acl"
)

// DiskPart is a part of the data that an allocation leaves to its replacement.
type DiskPart struct {
	List   bool   // what is in the directory Path, from the name after After on; else the file Path, from Offset on
	Path   string // below the allocation's directory; see [DiskDirs]
	After  string
	Offset int64 // in bytes
}

// ReadDisk asks servers for a part of the data that an allocation takes over from
// the one that it replaces. They ask the agent that has it.
type ReadDisk struct {
	NodeID  berth.NodeID
	AllocID berth.AllocID // the one that takes it over
	Part    DiskPart
	Query
}

// The states of the data of an allocation.
const (
	DiskReady   = "ready"
	DiskInUse   = "in-use" // the allocation has not ended
	DiskMissing = "missing"
)

// DiskEntry is what is in a directory.
type DiskEntry struct {
	Name     string
	Kind     string // one of the Disk constants below
	Size     int64  // bytes
	Mode     uint32 // permissions
	UID, GID int
	ModTime  int64  // ns since 1970
	Link     string // what a link says
}

// The kinds of entry. There are no others.
const (
	DiskFile = "file"
	DiskDir  = "directory"
	DiskLink = "link"
)

// DiskAnswer is a part of an allocation's data.
type DiskAnswer struct {
	State   string // one of the Disk constants
	Why     string // it is not ready
	Entries []DiskEntry
	More    bool // there are entries after these
	Data    []byte
	Meta
}

// The most that one answer has.
const (
	MaxDiskEntries = 500
	MaxDiskBytes   = 128 << 10
)

// AgentDisk asks the agent of an allocation for a part of its data.
type AgentDisk struct {
	AllocID string // the one that has it
	Part    DiskPart
	Query
}

// DiskDirs are the directories of an allocation that its replacement takes over:
// the data of the group, and what is local to each task.
func DiskDirs(g *berth.TaskGroup) []string {
	dirs := []string{"alloc/data"}
	for _, t := range g.Tasks {
		dirs = append(dirs, t.Name+"/local")
	}
	return dirs
}

// InDiskDirs reports whether a path is one of [DiskDirs] or below it.
func InDiskDirs(g *berth.TaskGroup, path string) bool {
	for _, d := range DiskDirs(g) {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

// How the data of an allocation gets to another node.
var (
	GetDisk       = define[ReadDisk, DiskAnswer]("alloc.disk", "", "Alloc.Disk", acl.Node, acl.NoSpace)
	AgentReadDisk = define[AgentDisk, DiskAnswer]("agent.disk", "", "FileSystem.Disk", acl.Server, acl.NoSpace, agents)
)
