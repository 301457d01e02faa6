package accept

import "syscall"

// Ports is how many connections each port of an agent may have at a time. Each
// port has its own part, so that a flood on one leaves the others alone.
type Ports struct{ HTTP, RPC, Gossip int }

// Bounds of the parts. An agent needs files and outgoing connections as well: a
// quarter of its descriptors, and at least minFiles where there are that many.
const (
	minFiles  = 128
	minPort   = 8
	maxHTTP   = 1 << 14
	maxRPC    = 1 << 16
	maxGossip = 256
)

// Divide divides a number of descriptors among the ports.
func Divide(descriptors uint64) Ports {
	n := int(min(descriptors, 4*(maxHTTP+maxRPC)))
	conns := n - max(n/4, min(n/2, minFiles))
	p := Ports{HTTP: min(conns*5/16, maxHTTP), Gossip: min(conns/16, maxGossip)}
	p.RPC = min(conns-p.HTTP-p.Gossip, maxRPC)
	return Ports{max(p.HTTP, minPort), max(p.RPC, minPort), max(p.Gossip, minPort)}
}

// Descriptors returns how many files and connections the process may have open.
// Package os has raised the limit as far as the process may.
func Descriptors() uint64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1024 // what POSIX systems allow by default
	}
	return l.Cur
}
