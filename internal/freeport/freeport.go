// Package freeport finds TCP ports of loopback for processes that are started
// for a while, by tests and demos.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// given are the ports that were taken: a process is started some time after its
// port was found, so none is given twice.
var given sync.Map

// Ports are looked for below those that systems give to connections, so that one
// stays free until its process takes it, and again when that is started anew.
const (
	lowest = 10_000
	count  = 9_000
)

// Take returns a port that nothing listens at and that this process was not
// given before.
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
	return 0, errors.New("no port of loopback is free")
}
