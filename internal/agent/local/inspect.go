package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth"
)

// Inspection is what a state directory holds.
type Inspection struct {
	NodeID  string // "" if it is not known
	Contact Contact
	Allocs  []Inspected
	Damaged []string // why files cannot be read, one line each
}

// Inspected is what is known of one allocation. The job's definition is left out.
type Inspected struct {
	ID            berth.AllocID
	Name          string
	Namespace     string
	JobID         berth.JobID
	JobVersion    uint64
	TaskGroup     string
	DesiredStatus string
	ModifyIndex   uint64
	Tasks         map[string]json.RawMessage // what the agent recorded of each task
}

// Inspect reads the records in a state directory and changes nothing, so it can
// be used while an agent runs. Files that cannot be read are named in the
// result.
func Inspect(dir string) (out Inspection, err error) {
	if _, err := os.Stat(dir); err != nil {
		return out, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, dirAllocs))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s holds no data of a node", dir)
	}
	if err != nil {
		return out, err
	}
	if b, err := os.ReadFile(filepath.Join(dir, "client-id")); err == nil {
		out.NodeID = strings.TrimSpace(string(b))
	}
	if out.Contact, err = GetContact(dir); err != nil {
		out.Damaged = append(out.Damaged, err.Error())
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".new") { // being written
			continue
		}
		a, err := inspect(filepath.Join(dir, dirAllocs), e.Name())
		if err != nil {
			out.Damaged = append(out.Damaged, fmt.Sprintf("the file %s: %v", filepath.Join(dirAllocs, e.Name()), err))
			continue
		}
		out.Allocs = append(out.Allocs, a)
	}
	return out, nil
}

// inspect reads the file of one allocation.
func inspect(dir, name string) (out Inspected, err error) {
	id, err := berth.ParseID[berth.Alloc](name)
	if err != nil {
		return out, errors.New("the name is not an allocation's ID")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return out, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return out, err
	}
	c, _, err := parse(name, b)
	if err != nil && err != io.ErrUnexpectedEOF { // the end is being written
		return out, err
	}
	a, err := c.decodeAlloc(id)
	if err != nil {
		return out, err
	}
	return Inspected{
		ID: a.ID, Name: a.Name, Namespace: a.Namespace, JobID: a.Job.ID, JobVersion: a.Job.Version, TaskGroup: a.TaskGroup,
		DesiredStatus: a.DesiredStatus.String(), ModifyIndex: a.ModifyIndex, Tasks: c.tasks,
	}, nil
}
