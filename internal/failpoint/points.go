//go:build faults

package failpoint

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Enabled reports whether this build has fault points.
const Enabled = true

// Check returns nil: this build has fault points.
func Check() error { return nil }

// ErrInjected is in the chain of every error that a point returns.
var ErrInjected = errors.New("failpoint")

type point struct {
	action string  // exit, hang, error or delay
	arg    string  // text of the error, length of the delay
	nth    int     // the pass it acts at
	every  bool    // and at every later one
	chance float64 // the part of those passes at which it acts; 0 means all
	passes int
}

var (
	on atomic.Bool // whether any point is set

	mu     sync.Mutex
	points = map[string]*point{}
	freed  chan struct{} // closed by Reset to end hangs; nil while nothing hangs
)

func init() {
	spec := os.Getenv(Env)
	if spec == "" {
		return
	}
	if name, ok := strings.CutPrefix(spec, "@"); ok {
		was := read(name, "") // points of the process's start must be set at once
		go follow(name, was)
		return
	}
	if err := Enable(spec); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Env, err)
		os.Exit(2)
	}
}

// followEvery is how often the file of points is read.
const followEvery = 20 * time.Millisecond

// follow sets the points from the file as long as the process runs. An invalid
// list changes nothing and is reported once.
func follow(name, was string) {
	for {
		time.Sleep(followEvery)
		was = read(name, was)
	}
}

// read sets the points if the file has changed, and returns its content.
func read(name, was string) string {
	text, err := os.ReadFile(name)
	if err != nil || string(text) == was {
		return was
	}
	if err := replace(string(text)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s: %v\n", Env, name, err)
	}
	return string(text)
}

// replace sets these points and clears all others.
func replace(spec string) error {
	if _, err := parseAll(spec); err != nil {
		return err
	}
	Reset()
	return Enable(spec)
}

// On reports whether any point is set, so that callers need not build a name
// for nothing.
func On() bool { return on.Load() }

// Hit passes the point. It returns an error only if the point's action is
// error.
func Hit(name string) error {
	if !on.Load() {
		return nil
	}
	return hit(name)
}

func hit(name string) error {
	mu.Lock()
	p := points[name]
	if p == nil {
		mu.Unlock()
		return nil
	}
	p.passes++
	act := p.passes == p.nth || p.every && p.passes > p.nth
	act = act && (p.chance == 0 || rand.Float64() < p.chance)
	if act && p.action == "hang" && freed == nil {
		freed = make(chan struct{})
	}
	hang := freed
	mu.Unlock()
	if !act {
		return nil
	}
	switch p.action {
	case "exit":
		os.Exit(ExitCode)
	case "hang":
		<-hang
	case "delay":
		d, _ := time.ParseDuration(p.arg) // checked by parse
		time.Sleep(d)
	case "error":
		return fmt.Errorf("%w %s: %s", ErrInjected, name, p.arg)
	}
	return nil
}

// Enable sets points, beside those that are set. spec is a list, separated by
// semicolons, of name=action with an optional argument in parentheses, then @n
// for the nth pass (the first by default) and * for every later pass too; then
// ~ and a number from 0 to 1 lets chance pick that part of those passes.
func Enable(spec string) error {
	set, err := parseAll(spec)
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	maps.Copy(points, set)
	on.Store(len(points) > 0)
	return nil
}

func parseAll(spec string) (map[string]*point, error) {
	set := map[string]*point{}
	for s := range strings.SplitSeq(spec, ";") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		name, p, err := parse(s)
		if err != nil {
			return nil, err
		}
		set[name] = p
	}
	return set, nil
}

// Reset clears all points and releases everything that hangs at one.
func Reset() {
	mu.Lock()
	defer mu.Unlock()
	clear(points)
	on.Store(false)
	if freed != nil {
		close(freed)
		freed = nil
	}
}

func parse(s string) (name string, p *point, err error) {
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return "", nil, fmt.Errorf("failpoint %q: must be name=action", s)
	}
	p = &point{nth: 1}
	if i := strings.LastIndexByte(rest, '~'); i >= 0 && !strings.HasSuffix(rest, ")") {
		if p.chance, err = strconv.ParseFloat(rest[i+1:], 64); err != nil || !(p.chance > 0 && p.chance <= 1) {
			return "", nil, fmt.Errorf("failpoint %q: chance ~%s must be above 0 and at most 1", s, rest[i+1:])
		}
		rest = rest[:i]
	}
	rest, p.every = strings.CutSuffix(rest, "*")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 && !strings.HasSuffix(rest, ")") {
		if p.nth, err = strconv.Atoi(rest[i+1:]); err != nil || p.nth < 1 {
			return "", nil, fmt.Errorf("failpoint %q: pass @%s must be at least 1", s, rest[i+1:])
		}
		rest = rest[:i]
	}
	p.action, p.arg, _ = strings.Cut(strings.TrimSuffix(rest, ")"), "(")
	if !slices.Contains([]string{"exit", "hang", "error", "delay"}, p.action) {
		return "", nil, fmt.Errorf("failpoint %q: %q is not an action: want exit, hang, error or delay", s, p.action)
	}
	if p.action == "delay" {
		if _, err := time.ParseDuration(p.arg); err != nil {
			return "", nil, fmt.Errorf("failpoint %q: %q is not a duration", s, p.arg)
		}
	}
	return name, p, nil
}
