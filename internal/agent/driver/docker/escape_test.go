package docker

import (
	"os"
	"runtime"
	"testing"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
)

// inside are the probes that succeed in a container and stay in it, or that the
// engine's profile allows every container.
var inside = map[string]string{
	"write-settings":                 "the file is the container's",
	"make-memory":                    "the node can be made, not opened",
	"change-the-root":                "to a directory of the container",
	"use-io-uring":                   "left to the engine's profile of system calls",
	"listen-on-a-privileged-port":    "in the container's own network",
	"read-the-symbols-of-the-kernel": "names without addresses",
	"have-capabilities":              "the defaults of allow_caps",
	"gain-capabilities":              "the defaults of allow_caps",
	"gain-rights-by-exec":            "security_opt has no-new-privileges",
	"become-another-user":            "of the container",
	"give-a-file-away":               "to a user of the container",
	"core-dumps":                     "ulimit bounds them",
	"change-its-segments":            "of itself",
}

// leastProbes is how many probes have to apply to containers.
const leastProbes = 60

// None of the ways out of drivertest gets out of a container with the defaults,
// as root. That each works without isolation is shown beside the driver exec.
func TestNothingEscapes(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the probes have the numbers of system calls of amd64")
	}
	c := config(t)
	all, env := drivertest.Probes(), drivertest.Lures(t)
	task := allocs(t)(1, map[string]any{
		"image": does()["image"], "entrypoint": []any{"/usr/bin/sh"}, "args": []any{"-c", drivertest.ProbeScript(all)},
	})
	// The image has no shell: it gets the host's programs, to be read alone.
	for _, dir := range []string{"/usr", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			task.Mounts = append(task.Mounts, driver.Mount{Source: dir, Destination: dir, ReadOnly: true})
		}
	}
	task.Env = append(append(task.Env, env...), "TASKDIR="+task.Dir, drivertest.ProbePath)
	x, out := ends(t, New(c), task)
	if !x.Success() {
		t.Fatalf("%+v: %s", x, out)
	}
	got, tried := drivertest.GotOut(t, out), 0
	for _, p := range all {
		switch {
		case inside[p.Name] != "":
		case got[p.Name]:
			t.Errorf("%s: a task got out by %s", p.Name, p.Script)
		default:
			tried++
		}
	}
	if tried < leastProbes {
		t.Errorf("%d probes apply to containers, want at least %d", tried, leastProbes)
	}
}
