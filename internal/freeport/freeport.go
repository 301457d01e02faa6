// Package freeport finds free TCP ports on loopback for short-lived processes
// of tests and demos.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// given are the ports returned so far: a process starts some time after its
// port was found, so none is returned twice.
var given sync.Map

// Ports are searched below the ephemeral range, so that one stays free until
// its process listens, and again when that restarts.
const (
	lowest = 10_000
	count  = 9_000
)

// Take returns a port that nothing listens on and that it has not returned in
// this process before.
func Take() (int, error) {
	for range 200 {
		port := lowest + rand.N(count)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, errors.New("no free port on loopback")
}
