package freeport

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Each port is given once, and can be listened at.
func TestTake(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		port, err := Take()
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

// holder, if set, makes the test program take a port, print it, and hold it
// until its input ends.
const holder = "BERTH_TEST_PORT_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holder) == "" {
		os.Exit(m.Run())
	}
	port, err := Take()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(port)
	bufio.NewReader(os.Stdin).ReadByte()
}

// A port that one process was given is given to no other one while the first
// runs, though nothing listens there yet.
func TestAPortOfAnotherProcess(t *testing.T) {
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holder+"=1")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	port, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		t.Errorf("the other process said %q, %v", line, err)
	}
	if lock, err := reserve(folder(), port); lock != nil || err != nil {
		t.Errorf("port %d of a process that runs was reserved: %v", port, err)
	}
	in.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
	lock, err := reserve(folder(), port)
	if lock == nil || err != nil {
		t.Fatalf("port %d of a process that has ended is not free: %v", port, err)
	}
	lock.Close()
}

// A folder that cannot be used is an error that names the port, not a port that
// another process may have.
func TestNoFolder(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if lock, err := reserve(file, 10_001); lock != nil || err == nil || !strings.Contains(err.Error(), "10001") {
		t.Errorf("got %v, %v", lock, err)
	}
}
