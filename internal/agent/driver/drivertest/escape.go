package drivertest

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Probe is a way out of an isolated task.
type Probe struct {
	Name   string
	Script string // of the shell; it ends with 0 if it got out
}

//go:embed escapes.txt
var escapes string

// Probes returns the ways out of escapes.txt. Their scripts need Linux on amd64,
// perl and util-linux.
func Probes() (out []Probe) {
	for line := range strings.Lines(escapes) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, script, _ := strings.Cut(line, " ")
		out = append(out, Probe{name, strings.TrimSpace(script)})
	}
	return out
}

// ProbeScript returns a script that tries all probes, in a new directory below its
// own. It prints the names of those that got out, then end.
func ProbeScript(all []Probe) string {
	var b strings.Builder
	b.WriteString(probeHelpers + "mkdir -p w; cd w\n")
	for _, p := range all {
		// Each in a shell of its own, whatever it does to it.
		fmt.Fprintf(&b, "(%s) </dev/null >/dev/null && echo %s\n", p.Script, p.Name)
	}
	b.WriteString("echo end\n")
	return b.String()
}

// ProbePath is what PATH must be for the scripts of probes.
const ProbePath = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

// probeHelpers are the words that probes use.
const probeHelpers = `
exec 2>/dev/null
sc() { perl -e '$n = shift; @a = map { /^-?\d+$/ ? $_ + 0 : $_ } @ARGV; exit(syscall($n + 0, @a) == -1)' -- "$@"; }
re() { perl -e '$n = shift; @a = map { /^-?\d+$/ ? $_ + 0 : $_ } @ARGV; exit(syscall($n + 0, @a) == -1 && $! == 1)' -- "$@"; }
`

// GotOut returns the names in the output of a [ProbeScript]. It ends the test if
// the script did not run to its end.
func GotOut(t testing.TB, output string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, name := range strings.Fields(output) {
		out[name] = true
	}
	if !out["end"] {
		t.Fatalf("the probes did not run to the end: %v", out)
	}
	return out
}

// Lures returns what probes are after: a file, another allocation, a process,
// shared memory and a socket of the host. They are variables of the environment of
// the task that probes, beside TASKDIR, which is its directory. They are gone when
// the test ends.
func Lures(t testing.TB) []string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	must(os.WriteFile(canary, []byte("secret"), 0o600))
	other := filepath.Join(dir, "other")
	must(os.MkdirAll(filepath.Join(other, "task", "secrets"), 0o755))
	must(os.MkdirAll(filepath.Join(other, ".supervise"), 0o700))
	must(os.WriteFile(filepath.Join(other, "task", "secrets", "key"), []byte("secret"), 0o600))
	victim := exec.Command("sleep", "100000")
	victim.Env = []string{"PROBE_SECRET=1"}
	must(victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	shm := "berth-probe-" + strconv.Itoa(os.Getpid())
	must(os.WriteFile("/dev/shm/"+shm, []byte("secret"), 0o644))
	t.Cleanup(func() { _ = os.Remove("/dev/shm/" + shm) })
	segment, err := unix.SysvShmGet(os.Getpid(), 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	must(err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil) })
	socket, err := net.Listen("unix", "@"+shm)
	must(err)
	t.Cleanup(func() { _ = socket.Close() })
	var root unix.Stat_t
	must(unix.Stat("/", &root))
	return []string{
		"CANARY=" + canary, "OTHER=" + other, "VICTIM=" + strconv.Itoa(victim.Process.Pid), "AGENT=" + strconv.Itoa(os.Getpid()),
		"SHM=" + shm, "SHMKEY=" + strconv.Itoa(os.Getpid()), "ABSTRACT=" + shm, "NOWHERE=/no/where", "ROOT=/", "TMPFS=tmpfs",
		fmt.Sprintf("DISK=%d %d", unix.Major(root.Dev), unix.Minor(root.Dev)),
	}
}
