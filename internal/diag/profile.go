package diag

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrUnknownProfile is the cause of an error for a profile that does not exist;
// ErrBusy, for one that another caller is taking.
var (
	ErrUnknownProfile = errors.New("unknown profile")
	ErrBusy           = errors.New("another one is being taken")
)

// MostSeconds is the longest time that a profile takes.
const MostSeconds = 300

// taking is held while a profile is taken that takes time: two at once would
// show each other.
var taking sync.Mutex

// Profiles returns the names of the profiles, in order.
func Profiles() []string {
	out := []string{"cmdline", "profile", "trace"}
	for _, p := range pprof.Profiles() {
		out = append(out, p.Name())
	}
	slices.Sort(out)
	return out
}

// Profile takes a profile. cmdline is the command line, profile the use of
// processors during some seconds, and trace what the runtime did during them; all
// others show this moment. debug writes those as text, and gc collects garbage
// before.
func Profile(ctx context.Context, name string, seconds, debug int, gc bool) ([]byte, error) {
	var out bytes.Buffer
	var err error
	switch name {
	case "cmdline":
		return []byte(strings.Join(os.Args, "\x00")), nil
	case "profile":
		err = during(ctx, seconds, func() error { return pprof.StartCPUProfile(&out) }, pprof.StopCPUProfile)
	case "trace":
		err = during(ctx, seconds, func() error { return trace.Start(&out) }, trace.Stop)
	default:
		p := pprof.Lookup(name)
		if p == nil {
			return nil, fmt.Errorf("%w %.40q: want %s", ErrUnknownProfile, name, strings.Join(Profiles(), ", "))
		}
		if gc {
			runtime.GC()
		}
		err = p.WriteTo(&out, debug)
	}
	return out.Bytes(), err
}

// during takes a profile that lasts; 0 seconds are one.
func during(ctx context.Context, seconds int, start func() error, stop func()) error {
	if !taking.TryLock() {
		return ErrBusy
	}
	defer taking.Unlock()
	if err := start(); err != nil {
		return err
	}
	defer stop()
	end := time.NewTimer(time.Duration(max(1, min(seconds, MostSeconds))) * time.Second)
	defer end.Stop()
	select {
	case <-end.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
