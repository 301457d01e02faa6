package bed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// MainApart is [Main] for tests that change the machine's network: it runs them in
// network and mount namespaces of their own, whose only interface is a loopback
// that is up. Without root it is Main, and such tests must skip themselves.
func MainApart(m *testing.M) int {
	const inside = "BERTH_TEST_INSIDE"
	switch {
	case os.Geteuid() != 0:
		return Main(m)
	case os.Getenv(inside) != "":
		if err := errors.Join(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), exec.Command("ip", "link", "set", "lo", "up").Run()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return Main(m)
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
