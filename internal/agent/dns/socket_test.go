package dns

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A port that only one of the protocols has free is not given: in a network
// namespace with ten ports, one of the protocols uses nine.
func TestAnyPortIsFreeWithBothProtocols(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	for protocol, use := range map[string]func(at string) (io.Closer, error){
		"udp": func(at string) (io.Closer, error) { return net.ListenPacket("udp", at) },
		"tcp": func(at string) (io.Closer, error) { return net.Listen("tcp", at) },
	} {
		t.Run(protocol, func(t *testing.T) {
			ended := make(chan error, 1)
			go func() {
				runtime.LockOSThread() // the thread ends with its namespace
				ended <- onePortIsFree(use)
			}()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// onePortIsFree has a protocol use all ports of a new network namespace but one,
// and wants that one for port 0, and no other for itself.
func onePortIsFree(use func(at string) (io.Closer, error)) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40009"), 0); err != nil {
		return err
	}
	for port := 40000; port < 40010; port++ {
		if port == 40003 {
			continue
		}
		c, err := use(fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			return err
		}
		defer c.Close()
	}
	for range 20 {
		tcp, udp, err := both("0.0.0.0:0")
		if err != nil {
			return err
		}
		a, b := tcp.Addr().String(), udp.LocalAddr().String()
		if err := errors.Join(tcp.Close(), udp.Close()); err != nil {
			return err
		}
		if a != b || a != "[::]:40003" {
			return fmt.Errorf("TCP at %s, UDP at %s; want [::]:40003", a, b)
		}
	}
	if _, _, err := both("0.0.0.0:40000"); err == nil {
		return errors.New("port 40000 is in use and was given")
	}
	return nil
}
