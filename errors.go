package berth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind classifies an error for the caller: what went wrong, not where.
type Kind string

// The kinds of error a caller can act on. One table in package api turns them
// into HTTP status codes, one in package cli into exit codes.
const (
	Invalid     Kind = "invalid"     // the request is wrong; repeating it does not help
	Denied      Kind = "denied"      // the caller may not do this
	NotFound    Kind = "not found"   // the object named does not exist
	Conflict    Kind = "conflict"    // the state changed since the caller looked
	TooLarge    Kind = "too large"   // the request is over a size limit
	Limited     Kind = "limited"     // too many requests; try again later
	NoLeader    Kind = "no leader"   // no server can take writes now; try again
	Unavailable Kind = "unavailable" // a part that is needed cannot be reached now
)

// Known reports whether k is one of the kinds above. A kind that comes from
// another program may be anything.
func (k Kind) Known() bool {
	switch k {
	case Invalid, Denied, NotFound, Conflict, TooLarge, Limited, NoLeader, Unavailable:
		return true
	}
	return false
}

// PermissionDenied begins the text of refusals for lack of rights, as in Nomad.
const PermissionDenied = "Permission denied"

// Error is an error whose kind, and code if it has one, are part of the API.
type Error struct {
	Kind Kind
	Code Code // "" for most
	Err  error
}

// Error returns the text of the cause; the kind and the code are not in it.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error of the given kind. %w keeps a cause.
func Errorf(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

// Refusef returns a Conflict error with a code. Its text begins with the code,
// for people. %w keeps a cause.
func Refusef(c Code, format string, args ...any) error {
	return &Error{Kind: Conflict, Code: c, Err: fmt.Errorf("%s: %w", c, fmt.Errorf(format, args...))}
}

// KindOf returns the kind of err, or "" if it has none: then the fault is
// ours, not the caller's.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// ErrNoLeader is in every error that says that no server takes writes now. It
// has no kind: by that, code that writes to the log tells a log that is lost
// from a change that was refused. Callers are told PublicKind.
//
//lint:ignore ST1005 clients look for these words, as they are
var ErrNoLeader = errors.New("No cluster leader")

// PublicKind returns the kind of err that other programs are told: KindOf, or
// NoLeader for an error that wraps ErrNoLeader.
func PublicKind(err error) Kind {
	k := KindOf(err)
	if k == "" && errors.Is(err, ErrNoLeader) {
		return NoLeader
	}
	return k
}

// Problem is one thing wrong with a value, and its place in job-file words:
// job.group[web].task[app].resources.cpu.
type Problem struct {
	Path string
	Text string
	Pos  string // file:line,columns if it is in a file, else ""

	// The text in the file that the problem is about. Line and Column count
	// from 1, and Column and Width are in characters. All are 0 if it is not known.
	Line, Column, Width int
}

// String returns the problem as "position: path: text", without the parts that
// are empty.
func (p Problem) String() string {
	s := p.Text
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.Pos != "" {
		s = p.Pos + ": " + s
	}
	return s
}

// Problems collects everything wrong with a value, so that its writer mends it
// in one go.
type Problems []Problem

// Addf notes a problem at path.
func (ps *Problems) Addf(path, format string, args ...any) {
	*ps = append(*ps, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// Err returns nil if there are no problems, else an Invalid error with one
// line for each.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Err: ps}
}

// Error implements error.
func (ps Problems) Error() string {
	const most = 50 // a body can be wrong in a million places; a person reads the first screen
	lines := make([]string, 0, min(len(ps), most+1))
	for i, p := range ps {
		if i == most {
			lines = append(lines, fmt.Sprintf("(and %d more problems)", len(ps)-most))
			break
		}
		lines = append(lines, p.String())
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d problems:\n  * %s", len(ps), strings.Join(lines, "\n  * "))
}

// Clip shortens s to at most n bytes for an error message.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n-- // not in the middle of a character
	}
	return s[:n] + "…"
}

// Code is why something is refused, for programs. It is part of the API.
type Code string

// The codes. docs/stream-jobs.md and docs/cluster.md tell what callers do about
// them.
const (
	CodeOwnerMissing    Code = "owner-missing"    // the owner is gone, or left it to itself
	CodeOwnerDeleting   Code = "owner-deleting"   // the owner is being deleted, was stopped or given up
	CodeStaleGeneration Code = "stale-generation" // of another generation than its owner
	CodeStaleLaunch     Code = "stale-launch"     // not of the present launch of its processing element
	CodeStaleEpoch      Code = "stale-epoch"      // decided in an earlier term of office
	CodeStaleVersion    Code = "stale-version"    // about another version of a file than the one there is
	CodeUIDMismatch     Code = "uid-mismatch"     // the name is another object's now
	CodeAlreadyDone     Code = "already-done"
	CodeNotEmpty        Code = "not-empty"      // something it owns holds it; wait
	CodeNodeHeld        Code = "node-held"      // an exclusive pool has the node, or would take it from others
	CodeDiskFull        Code = "disk-full"      // nothing can be written until the server's disk has space
	CodeDiskSlow        Code = "disk-slow"      // nothing is written until the server's disk has taken what is on its way
	CodeWrongSecret     Code = "wrong-secret"   // the node is known with another secret
	CodeNotIntroduced   Code = "not-introduced" // the node is new, and no valid introduction token came with it
	CodeDeleting        Code = "deleting"       // it can be asked for again when what is being deleted has gone
)

// Codes are all codes.
var Codes = []Code{
	CodeOwnerMissing, CodeOwnerDeleting, CodeStaleGeneration, CodeStaleLaunch, CodeStaleEpoch, CodeStaleVersion, CodeUIDMismatch, CodeAlreadyDone,
	CodeNotEmpty, CodeNodeHeld, CodeDeleting, CodeDiskFull, CodeDiskSlow, CodeWrongSecret, CodeNotIntroduced,
}

// Known reports whether c is one of Codes. A code that comes from another
// program may be anything.
func (c Code) Known() bool { return slices.Contains(Codes, c) }

// CodeOf returns the code of err, "" if it has none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
