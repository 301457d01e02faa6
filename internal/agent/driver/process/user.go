package process

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/agent/supervise"
)

// User looks up a user by name or number. The agent's own, and "", are nil.
func User(name string) (*supervise.User, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		var byID error
		if u, byID = user.LookupId(name); byID != nil {
			return nil, berth.Errorf(berth.Invalid, "user: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "user %q: %w", name, err)
	}
	// An agent may always start tasks as its own user, root or not.
	if int(uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, berth.Errorf(berth.Denied, "user: the agent does not run as root and cannot start tasks as %q", name)
	}
	who := &supervise.User{UID: uint32(uid)}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "user %q: %w", name, err)
	}
	who.GID = uint32(gid)
	// The task gets the user's other groups as a login would.
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("groups of user %q: %w", name, err)
	}
	for _, g := range groups {
		if id, err := strconv.ParseUint(g, 10, 32); err == nil {
			who.Groups = append(who.Groups, uint32(id))
		}
	}
	return who, nil
}

// Rules say who tasks may not run as. The zero value allows everybody.
type Rules struct {
	Denied []string // names
	UIDs   []Range
	GIDs   []Range
}

// Range is the numbers from Low to High.
type Range struct{ Low, High uint32 }

// Ranges reads a list such as "0,100-200".
func Ranges(text string) (out []Range, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		low, high, ok := strings.Cut(part, "-")
		if !ok {
			high = low
		}
		l, err1 := strconv.ParseUint(strings.TrimSpace(low), 10, 32)
		h, err2 := strconv.ParseUint(strings.TrimSpace(high), 10, 32)
		if err1 != nil || err2 != nil || h < l {
			return nil, berth.Errorf(berth.Invalid, "%q is not a number or a range of numbers such as 100-200", part)
		}
		out = append(out, Range{uint32(l), uint32(h)})
	}
	return out, nil
}

// has reports whether a number is in one of the ranges.
func has(ranges []Range, n uint32) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.Low <= n && n <= r.High })
}

// Check refuses a user that tasks may not run as. who is what [User] returned
// for the name.
func (r *Rules) Check(name string, who *supervise.User) error {
	uid, gid, groups := uint32(os.Geteuid()), uint32(os.Getegid()), []uint32(nil)
	if who != nil {
		uid, gid, groups = who.UID, who.GID, who.Groups
	}
	names := []string{name}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		names = append(names, u.Username) // the number of a denied name is denied, too
	}
	for _, n := range names {
		if slices.Contains(r.Denied, n) {
			return berth.Errorf(berth.Denied, "user: tasks must not run as %q on this node (client.options, user.denylist)", n)
		}
	}
	if has(r.UIDs, uid) {
		return berth.Errorf(berth.Denied, "user: tasks must not run as user %d on this node (denied_host_uids)", uid)
	}
	for _, g := range append(groups, gid) {
		if has(r.GIDs, g) {
			return berth.Errorf(berth.Denied, "user: tasks must not run in group %d on this node (denied_host_gids)", g)
		}
	}
	return nil
}

// Home returns a user's home directory, "" if there is no such user.
func Home(name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return u.HomeDir
}
