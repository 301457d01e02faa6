package isolated

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/driver/raw"
)

// leastControls is how many probes have to get out of a task that is not
// isolated. Fewer would mean that the probes are broken: what a machine does not
// even offer to root is a handful.
const leastControls = 60

// probeHelpers are the words that probes use.
const probeHelpers = `
exec 2>/dev/null
sc() { perl -e '$n = shift; @a = map { /^-?\d+$/ ? $_ + 0 : $_ } @ARGV; exit(syscall($n + 0, @a) == -1)' -- "$@"; }
re() { perl -e '$n = shift; @a = map { /^-?\d+$/ ? $_ + 0 : $_ } @ARGV; exit(syscall($n + 0, @a) == -1 && $! == 1)' -- "$@"; }
`

// probes reads the ways out: a name and a script each.
func probes(t *testing.T) (out [][2]string) {
	f, err := os.Open("testdata/escapes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, script, _ := strings.Cut(line, " ")
		out = append(out, [2]string{name, strings.TrimSpace(script)})
	}
	return out
}

// lures are what probes are after. They are variables of their environment.
func lures(t *testing.T) []string {
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

// got runs all probes in one task of the driver, as root, and returns those that
// got out.
func got(t *testing.T, d driver.Driver, all [][2]string, env []string) map[string]bool {
	t.Helper()
	s := suite()
	task := s.Alloc(t)(1, nil)
	script := probeHelpers + "mkdir -p w; cd w\n"
	for _, p := range all {
		// Each in a shell of its own, whatever it does to it.
		script += "(" + p[1] + ") </dev/null >/dev/null && echo " + p[0] + "\n"
	}
	task.Config = sh(script + "echo end\n")
	task.Env = append(append(task.Env, env...), "TASKDIR="+task.Dir, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	task.User = "root"
	h, err := d.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := h.Wait(t.Context()); err != nil || !e.Success() {
		t.Fatalf("%+v, %v", e, err)
	}
	out := map[string]bool{}
	for _, name := range strings.Fields(drivertest.Output(t, task, "stdout")) {
		out[name] = true
	}
	if !out["end"] {
		t.Fatalf("the probes did not run to the end: %v", out)
	}
	return out
}

// None of the ways out of testdata/escapes.txt works for a task of exec, run as
// root, and each works without isolation.
func TestNothingEscapes(t *testing.T) {
	d := Exec(Config{})
	needs(t, d)
	if runtime.GOARCH != "amd64" {
		t.Skip("the probes have the numbers of system calls of amd64")
	}
	all, env := probes(t), lures(t)
	isolated := got(t, d, all, env)
	for _, p := range all {
		if isolated[p[0]] {
			t.Errorf("%s: a task got out by %s", p[0], p[1])
		}
	}
	control := got(t, raw.New(raw.Config{Enabled: true}), all, env)
	var not []string
	for _, p := range all {
		if !control[p[0]] {
			not = append(not, p[0])
		}
	}
	t.Logf("%d probes, of which this machine refuses %d to root without isolation: %s", len(all), len(not), strings.Join(not, ", "))
	if n := len(all) - len(not); n < leastControls {
		t.Errorf("only %d probes work without isolation; at least %d must", n, leastControls)
	}
}
