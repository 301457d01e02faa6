package docker

import "github.com/containerd/errdefs"

// wrong reports whether the engine understood a request and will never do it:
// to try again cannot help.
func wrong(err error) bool {
	return errdefs.IsInvalidArgument(err) || errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || errdefs.IsNotImplemented(err)
}

// gone reports whether the engine has no such object.
func gone(err error) bool { return errdefs.IsNotFound(err) }

// taken reports whether something else is in the way.
func taken(err error) bool { return errdefs.IsConflict(err) }
