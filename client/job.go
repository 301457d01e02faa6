package client

import (
	"encoding/json"
	"fmt"

	"berth/internal/decode"

	"berth"
)

// JobTree returns a job as [op.RegisterJob] and [op.ValidateJob] take it. What
// only servers set is left out, and so is each block that the job lacks, so
// that the server decodes the same job.
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

// serverSet are the fields of a job that servers set in Apply.
var serverSet = []string{
	"Stop", "Stable", "Version", "VersionTag", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "UID",
}

// EncodeTree returns a tree as JSON, its numbers as they were written.
func EncodeTree(t decode.RawTree) (json.RawMessage, error) { return json.Marshal(t) }
