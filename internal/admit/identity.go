package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth"
	"berth/internal/pattern"
)

// identities puts the default identity in its place, and fills in what each
// does when it changes. The API has the default one apart from the others; in a
// job file it is an identity without a name.
func (d *decoder) identities(t *berth.Task) {
	kept := make([]berth.WorkloadIdentity, 0, len(t.Identities))
	for _, w := range t.Identities {
		if (w.Name == "" || w.Name == berth.DefaultIdentity) && t.Identity == nil {
			t.Identity = &w
			continue
		}
		kept = append(kept, w)
	}
	if t.Identities = kept; len(kept) == 0 {
		t.Identities = nil
	}
	if t.Identity != nil {
		own := *t.Identity // the tree may share it
		own.Name = cmp.Or(own.Name, berth.DefaultIdentity)
		t.Identity = &own
	}
	for _, w := range t.AllIdentities() {
		w.ChangeMode = strings.ToLower(cmp.Or(w.ChangeMode, berth.ChangeNoop))
		w.ChangeSignal = strings.ToUpper(w.ChangeSignal)
	}
}

// identityForm is what the name of an identity may be: it becomes part of a
// file's name and of an environment variable.
var identityForm = pattern.New(`^[a-zA-Z0-9_-]{1,128}$`)

// minIdentityTTL is the shortest time for which an identity can be valid.
const minIdentityTTL = 10 * time.Second

// identities checks the identities of a task.
func (c *checker) identities(at string, t *berth.Task) {
	seen, files := map[string]bool{}, map[string]bool{}
	for _, w := range t.AllIdentities() {
		here := fmt.Sprintf("%s.identity[%s]", at, berth.Clip(w.Name, 64))
		switch {
		case !identityForm.MatchString(w.Name):
			c.addf(here+".name", "must have 1 to 128 letters, digits, dashes and underscores, got %q", berth.Clip(w.Name, 64))
		case seen[w.Name]:
			c.addf(here+".name", "is defined twice")
		}
		seen[w.Name] = true
		if slices.Contains(w.Audience, "") {
			c.addf(here+".aud", "must not have an empty audience")
		}
		for i, name := range w.ExtraClaims { // whether there are such claims, the namespace knows
			if name == "" || len(name) > berth.MaxNameLen || slices.Contains(w.ExtraClaims[:i], name) {
				c.addf(here+".extra_claims", "must have different names of 1 to %d bytes, got %q", berth.MaxNameLen, berth.Clip(name, 64))
				break
			}
		}
		switch {
		case w.TTL != 0 && w.TTL < minIdentityTTL:
			c.addf(here+".ttl", "must be 0 or at least %s, got %s", minIdentityTTL, w.TTL)
		case w.Filepath != "" && !w.File:
			c.addf(here+".filepath", "has no effect without file = true")
		case w.Filepath != "" && !berth.LocalPath(w.Filepath):
			c.addf(here+".filepath", "must be the path of a file below the task's directory, got %q", berth.Clip(w.Filepath, 64))
		case w.Filepath != "" && files[w.Filepath]:
			c.addf(here+".filepath", "%q is the file of two identities", berth.Clip(w.Filepath, 64))
		}
		files[w.Filepath] = true
		switch w.ChangeMode {
		case berth.ChangeNoop, berth.ChangeRestart:
			if w.ChangeSignal != "" {
				c.addf(here+".change_signal", "has no effect unless change_mode is signal")
			}
		case berth.ChangeSignal:
			if !slices.Contains(signals, w.ChangeSignal) {
				c.addf(here+".change_signal", "unknown signal %q: want %s", berth.Clip(w.ChangeSignal, 64), orList(signals))
			}
		default:
			c.addf(here+".change_mode", "must be noop, signal or restart, got %q", berth.Clip(w.ChangeMode, 64))
		}
	}
}
