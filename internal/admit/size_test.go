package admit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/internal/decode"
)

// A job's env and meta blocks have a size limit, because each entry costs every
// reader of the job.
func TestManyEntries(t *testing.T) {
	many := decode.Tree{}
	for i := range maxEntries + 1 {
		many[fmt.Sprint("k", i)] = "v"
	}
	job := func(jobMeta, env decode.Tree) decode.Tree {
		task := decode.Tree{"Name": "t", "Driver": "mock_driver", "Config": decode.Tree{"run_for": "1s"}, "Env": env}
		return decode.Tree{"ID": "j", "Meta": jobMeta, "TaskGroups": []any{decode.Tree{"Name": "g", "Tasks": []any{task}}}}
	}
	for at, tree := range map[string]decode.Tree{"job.meta": job(many, decode.Tree{}), "job.group[g].task[t].env": job(decode.Tree{}, many)} {
		if _, err := DecodeJob(tree, FromJSON); err == nil || !strings.Contains(err.Error(), at+": at most 10000 entries are allowed, got 10001") {
			t.Errorf("%s: %v", at, err)
		}
	}
	delete(many, "k0")
	if _, err := DecodeJob(job(many, many), FromJSON); err != nil {
		t.Error(err)
	}
	// A caller who has left gets no list of problems.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if j, err := DecodeJobContext(ctx, job(many, many), FromJSON); j != nil || !errors.Is(err, context.Canceled) {
		t.Error(j, err)
	}
}
