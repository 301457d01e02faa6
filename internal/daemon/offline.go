package daemon

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"berth"
	"berth/internal/agent/local"
	"berth/internal/claim"
	"berth/internal/consensus"
	"berth/internal/filter"
	"berth/internal/server"
	"berth/internal/state"
)

// What operators read from the data of an agent that is stopped, and from
// snapshots.

// The answers about the log of a stopped server.
type (
	LogInfo  = consensus.LogInfo
	LogEntry = consensus.LogEntry
	Peer     = consensus.Peer
)

// offline calls f with the directory of a stopped server. dataDir is the data
// directory of the agent, or of the server in it. The error names a running
// agent.
func offline(dataDir string, f func(dir string) error) (err error) {
	dir := dataDir
	for _, d := range []string{filepath.Join(dataDir, "server"), dataDir} {
		if _, err := os.Stat(filepath.Join(d, "log")); err == nil {
			dir = d
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return berth.Errorf(berth.Invalid, "%w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		return berth.Errorf(berth.Invalid, "%s holds no data of a server", dataDir)
	}
	folder, err := server.Hold(dir, claim.Wait{})
	if err != nil {
		return berth.Errorf(berth.Unavailable, "%w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return f(dir)
}

// InspectLog describes the log of the stopped server in a data directory.
func InspectLog(dataDir string) (info LogInfo, err error) {
	err = offline(dataDir, func(dir string) error {
		info, err = consensus.InspectLog(dir)
		return err
	})
	return info, err
}

// EachLogEntry calls each for the log entries of a stopped server, in order.
func EachLogEntry(dataDir string, each func(LogEntry) error) error {
	return offline(dataDir, func(dir string) error { return consensus.EachEntry(dir, each) })
}

// DumpState writes the state of a stopped server as JSON: what its log leads to
// up to a log index, or as a whole if last is 0.
func DumpState(dataDir string, last uint64, to io.Writer) error {
	return offline(dataDir, func(dir string) error {
		snap, applied, err := consensus.StateAt(dir, last)
		if err != nil {
			return err
		}
		return dump(snap, applied, "", to)
	})
}

// DumpSnapshot writes the state in an operator's snapshot as JSON. With an
// expression it writes only the rows that match it; tables whose rows have not
// all of its fields are left out.
func DumpSnapshot(f *os.File, expression string, to io.Writer) error {
	b, snap, err := consensus.ReadBackup(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return err
	}
	return dump(snap, b.RaftIndex, expression, to)
}

// RedactSnapshot writes an operator's snapshot without its secrets: the root
// keys, and the secrets of nodes and of CSI volumes.
func RedactSnapshot(from io.Reader, to io.Writer) error {
	b, snap, err := consensus.ReadBackup(bufio.NewReaderSize(from, 256<<10))
	if err != nil {
		return err
	}
	return consensus.WriteBackup(to, b, snap.WithoutSecrets())
}

// dump writes a state as one JSON object with an array for each table.
func dump(snap *state.Snapshot, applied uint64, expression string, to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "{\n  \"Index\": %d,\n  \"Term\": %d,\n  \"LogIndex\": %d", snap.Index, snap.Term, applied)
	fits := 0
	var misfit error
	for _, t := range snap.Tables() {
		var match *filter.Filter
		n := 0
		for row := range t.Rows {
			if expression != "" && match == nil {
				var err error
				if match, err = filter.Compile(expression, filter.Part{Type: reflect.TypeOf(row)}); err != nil {
					misfit = err
					break
				}
				fits++
			}
			if match != nil {
				if ok, err := match.Match(func(int) any { return row }); err != nil || !ok {
					continue
				}
			}
			text, err := json.Marshal(row)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			if n == 0 {
				fmt.Fprintf(w, ",\n  %q: [", t.Name)
			} else {
				w.WriteByte(',')
			}
			n++
			w.WriteString("\n    ")
			w.Write(text)
		}
		if n > 0 {
			w.WriteString("\n  ]")
		}
	}
	if misfit != nil && fits == 0 {
		return berth.Errorf(berth.Invalid, "%w", misfit)
	}
	w.WriteString("\n}\n")
	return w.Flush()
}

// AgentAlloc is what a node remembers of one allocation.
type AgentAlloc = local.Inspected

// AgentState is what a node remembers over a restart of its agent.
type AgentState struct {
	NodeID      string
	LastContact string `json:",omitempty"` // with servers, RFC 3339
	Allocs      []AgentAlloc
	Damaged     []string `json:",omitempty"` // files that cannot be read
}

// InspectAgentState reads what the node in a data directory remembers, without
// changing it. dataDir is that of the agent, or the state directory of the node.
func InspectAgentState(dataDir string) (s AgentState, err error) {
	dir := filepath.Join(dataDir, "client")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = dataDir
	}
	found, err := local.Inspect(dir)
	if err != nil {
		return s, berth.Errorf(berth.Invalid, "cannot read the state of an agent: %w", err)
	}
	s.NodeID, s.Allocs, s.Damaged = found.NodeID, found.Allocs, found.Damaged
	if !found.Contact.At.IsZero() {
		s.LastContact = found.Contact.At.Format("2006-01-02T15:04:05Z07:00")
	}
	return s, nil
}

// SecretsIn counts the secrets in an operator's snapshot that RedactSnapshot
// removes.
func SecretsIn(f *os.File) (n int, err error) {
	_, snap, err := consensus.ReadBackup(bufio.NewReaderSize(f, 256<<10))
	if err != nil {
		return 0, err
	}
	for k := range snap.RootKeys() {
		if len(k.Wrapped.Data) > 0 {
			n++
		}
	}
	for node := range snap.Nodes() {
		if node.SecretID != "" {
			n++
		}
	}
	return n, nil
}
