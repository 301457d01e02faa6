package admit

import (
	"fmt"
	"strings"

	"berth"
	"berth/internal/pattern"
)

// actionName is the form of an action's name, as publicly documented for Nomad.
var actionName = pattern.New(`^[A-Za-z0-9][A-Za-z0-9-]{0,127}$`)

// actions checks the actions of a task.
func (c *checker) actions(at string, t *berth.Task) {
	if !c.atMost(at, requestsLimit, len(t.Actions), "actions") {
		return
	}
	seen := map[string]bool{}
	for i := range t.Actions {
		a := &t.Actions[i]
		aat := fmt.Sprintf("%s[%s]", at, berth.Clip(a.Name, 64))
		if !actionName.MatchString(a.Name) {
			c.addf(aat+".name", "must be 1 to 128 letters, digits and hyphens, got %q", berth.Clip(a.Name, 64))
		}
		if seen[a.Name] {
			c.addf(aat, "is defined twice")
		}
		seen[a.Name] = true
		if a.Command == "" {
			c.addf(aat+".command", "is missing: want the command to run")
		}
		c.atMost(aat+".args", entriesLimit, len(a.Args), "arguments")
		for _, word := range append([]string{a.Command}, a.Args...) {
			if strings.ContainsRune(word, 0) {
				c.addf(aat+".command", "must not contain NUL, got %q", berth.Clip(word, 64))
			}
		}
	}
}
