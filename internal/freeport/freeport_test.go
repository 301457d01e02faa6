package freeport_test

import (
	"fmt"
	"net"
	"testing"

	"berth/internal/freeport"
)

// Each port is given once, and can be listened at.
func TestTake(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		port, err := freeport.Take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("%d was given twice", port)
		}
		seen[port] = true
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
	}
}
