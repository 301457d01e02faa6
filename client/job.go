package client

import (
	"encoding/json"
	"fmt"

	"berth/internal/decode"

	"berth"
)

// JobTree returns a job in the form that [op.RegisterJob] and [op.ValidateJob]
// take. Fields that only servers set and blocks that the job lacks are left
// out, so that the server decodes the same job.
func JobTree(j *berth.Job) (decode.RawTree, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", j.ID, err)
	}
	tree, err := decode.ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", j.ID, err)
	}
	for _, name := range serverSet {
		delete(tree, name)
	}
	return decode.RawTree(tree), nil
}

// serverSet lists the fields of a job that servers set when a command is
// applied.
var serverSet = []string{
	"Stop", "Stable", "Version", "VersionTag", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "UID",
}

// EncodeTree returns a tree as JSON. Numbers keep their digits.
func EncodeTree(t decode.RawTree) (json.RawMessage, error) { return json.Marshal(t) }
