package task

import (
	"context"
	"path"

	"berth"
)

// writePayload puts what a job was dispatched with where the task wants it.
// Servers refuse paths that lead elsewhere; this agent does not take their word
// for it.
func writePayload(_ context.Context, at *attempt) error {
	d, data := at.task.DispatchPayload, at.alloc.Job.Payload
	if d == nil || len(data) == 0 {
		return nil
	}
	if !berth.LocalPath(d.File) {
		return berth.Errorf(berth.Invalid, "dispatch_payload.file: %.64q is not the path of a file below the task's local directory", d.File)
	}
	if len(data) > berth.MaxPayload {
		return berth.Errorf(berth.Invalid, "the payload has %d bytes: at most %d are allowed", len(data), berth.MaxPayload)
	}
	root, p := at.out.AllocDir, at.task.Name+"/local/"+d.File
	if dir := path.Dir(d.File); dir != "." {
		if err := root.MkdirAll(at.task.Name+"/local/"+dir, 0o755); err != nil {
			return onDisk(err)
		}
	}
	if err := root.Replace(p, data, 0o644); err != nil {
		return onDisk(err)
	}
	if uid, gid, other := lookupUser(at.out.User); other {
		return onDisk(root.Chown(p, uid, gid))
	}
	return nil
}
