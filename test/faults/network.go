package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// network is one bridge that this process and every machine are attached to.
type network struct{ hosts map[string]*host }

// host is a network namespace in which the processes of one machine run.
type host struct {
	name string
	addr string // 10.77.0.11
}

// runnerAddr is the address of this process, its simulated nodes and its
// callers.
const runnerAddr = "10.77.0.1"

// nowhere is the address of no network card. What is sent to it is lost
// silently, as in a network that is cut.
const nowhere = "02:00:00:00:de:ad"

// newNetwork creates the bridge that all hosts are attached to. It needs its
// own network namespace.
func newNetwork() (*network, error) {
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return nil, err
	}
	return &network{hosts: map[string]*host{}}, errors.Join(
		ip("link set lo up"), ip("link add br0 type bridge"), ip("addr add "+runnerAddr+"/24 dev br0"), ip("link set br0 up"))
}

// ip runs ip(8).
func ip(args string) error {
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

// host returns the network of a machine and creates it if needed.
func (n *network) host(name string) (*host, error) {
	if h := n.hosts[name]; h != nil {
		return h, nil
	}
	number := 11 + len(n.hosts)
	h := &host{name: name, addr: fmt.Sprintf("10.77.0.%d", number)}
	for _, args := range []string{
		"netns add " + name,
		fmt.Sprintf("link add veth%d type veth peer name eth0 netns %s", number, name),
		fmt.Sprintf("link set veth%d master br0 up", number),
		fmt.Sprintf("-n %s addr add %s/24 dev eth0", name, h.addr),
		fmt.Sprintf("-n %s link set eth0 up", name),
		fmt.Sprintf("-n %s link set lo up", name),
	} {
		if err := ip(args); err != nil {
			return nil, err
		}
	}
	n.hosts[name] = h
	return h, nil
}

// cut drops what one machine sends to another, in this direction only.
func (n *network) cut(from, to *host) error {
	return ip(fmt.Sprintf("-n %s neigh replace %s lladdr %s dev eth0 nud permanent", from.name, to.addr, nowhere))
}

// part cuts machines off from others in both directions.
func (n *network) part(one, other []*host) error {
	var errs []error
	for _, a := range one {
		for _, b := range other {
			errs = append(errs, n.cut(a, b), n.cut(b, a))
		}
	}
	return errors.Join(errs...)
}

// heal undoes every cut.
func (n *network) heal() error {
	var errs []error
	for _, h := range n.hosts {
		errs = append(errs, ip("-n "+h.name+" neigh flush dev eth0 nud permanent"))
	}
	return errors.Join(errs...)
}

// within runs f, which may start processes, in the network of a machine.
func (h *host) within(f func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer own.Close()
	there, err := os.Open("/run/netns/" + h.name)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("network of %s: %w", h.name, err)
	}
	err = f()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}
