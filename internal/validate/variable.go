package validate

import (
	"strings"
	"unicode/utf8"

	"berth"
)

// VariablePath returns an Invalid error for a path that no variable can
// have. Paths consist of letters, digits and -_~/ up to 128 bytes, with no
// slash at either end. Of those below nomad, only the ones that tasks read and
// job templates are allowed.
func VariablePath(path string) error {
	switch {
	case path == "":
		return berth.Errorf(berth.Invalid, "Path: must not be empty")
	case len(path) > berth.MaxVariablePath:
		return berth.Errorf(berth.Invalid, "Path: must have at most %d bytes, got %d", berth.MaxVariablePath, len(path))
	case strings.Trim(path, "/") != path:
		return berth.Errorf(berth.Invalid, "Path: must not begin or end with a slash, got %q", path)
	}
	for _, c := range path {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_~/", c) {
			return berth.Errorf(berth.Invalid, "Path: must consist of letters, digits and the characters -_~/, got %q", path)
		}
	}
	if first, rest, _ := strings.Cut(path, "/"); first == "nomad" {
		if second, _, _ := strings.Cut(rest, "/"); second != "jobs" && second != "job-templates" {
			return berth.Errorf(berth.Invalid, "Path: below nomad only nomad/jobs and nomad/job-templates are allowed, got %q", path)
		}
	}
	return nil
}

// VariableItems returns an Invalid or TooLarge error for items that no
// variable can have, and their size.
func VariableItems(items map[string]string) (size int, err error) {
	for k, v := range items {
		if k == "" || !utf8.ValidString(k) {
			return 0, berth.Errorf(berth.Invalid, "Items: a name must not be empty and must be valid UTF-8, got %q", berth.Clip(k, 64))
		}
		size += len(k) + len(v)
	}
	if size > berth.MaxVariableSize {
		return size, berth.Errorf(berth.TooLarge, "Items: names and values together must have at most %d bytes, got %d", berth.MaxVariableSize, size)
	}
	return size, nil
}
