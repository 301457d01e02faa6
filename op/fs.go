package op

import (
	"time"

	"berth/internal/acl"
)

// FileQuery names a file or directory of an allocation.
type FileQuery struct {
	AllocID string
	Path    string `query:"path"` // below the allocation's directory; "" and "/" are the directory itself
	Query
}

// FileRead asks for a part of a file.
type FileRead struct {
	AllocID string
	Path    string `query:"path"`
	Offset  int64  `query:"offset"` // in bytes from the start
	Limit   int64  `query:"limit"`  // most bytes; 0 or less is no limit
	Query
}

// FileFollow asks for a file as it grows.
type FileFollow struct {
	AllocID string
	Path    string `query:"path"`
	Offset  int64  `query:"offset"` // in bytes
	Origin  string `query:"origin"` // start or end: where Offset counts from
	Follow  *bool  `query:"follow"` // go on when the file grows; nil is true
	Plain   bool   `query:"plain"`  // answer with bytes instead of frames
	Query
}

// FileSection is what an agent reads for any of these.
type FileSection struct {
	AllocID string
	Path    string
	Offset  int64
	Origin  string // start or end; "" is start
	Limit   int64  // most bytes; 0 or less is no limit
	Follow  bool
	Query
}

// FileInfo describes a file.
type FileInfo struct {
	Name        string
	IsDir       bool
	Size        int64  // bytes
	FileMode    string // as ls shows it: -rw-r--r--
	ModTime     time.Time
	ContentType string `json:",omitempty"` // of a regular file, found from its first bytes; not in lists
}

// Files is a list of files.
type Files struct{ List []FileInfo }

// The operations on the files of an allocation. CatFile and ReadFile answer with
// bytes, FollowFile with frames.
var (
	ListFiles  = define[FileQuery, []FileInfo]("alloc.files", "GET /v1/client/fs/ls/{AllocID}", "", acl.ReadFS, acl.AllocSpace, local)
	StatFile   = define[FileQuery, FileInfo]("alloc.stat", "GET /v1/client/fs/stat/{AllocID}", "", acl.ReadFS, acl.AllocSpace, local)
	CatFile    = define[FileQuery, Nothing]("alloc.cat", "GET /v1/client/fs/cat/{AllocID}", "", acl.ReadFS, acl.AllocSpace, local, bytes)
	ReadFile   = define[FileRead, Nothing]("alloc.readat", "GET /v1/client/fs/readat/{AllocID}", "", acl.ReadFS, acl.AllocSpace, local, bytes)
	FollowFile = define[FileFollow, StreamFrame]("alloc.follow", "GET /v1/client/fs/stream/{AllocID}", "", acl.ReadFS, acl.AllocSpace, local)

	AgentListFiles = define[FileQuery, Files]("agent.files", "", "FileSystem.List", acl.Server, acl.NoSpace, agents)
	AgentStatFile  = define[FileQuery, FileInfo]("agent.stat", "", "FileSystem.Stat", acl.Server, acl.NoSpace, agents)
	AgentReadFile  = define[FileSection, StreamFrame]("agent.read", "", "FileSystem.Stream", acl.Server, acl.NoSpace, agents)
)
