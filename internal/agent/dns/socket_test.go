package dns

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A port that only UDP has in use is not given to both protocols: in a network
// namespace with ten ports, UDP uses nine.
func TestAnyPortIsFreeWithBothProtocols(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	fail := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with its namespace
		fail <- func() error {
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
				c, err := net.ListenPacket("udp", fmt.Sprintf("0.0.0.0:%d", port))
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
				tcp.Close()
				udp.Close()
				if a != b || a != "[::]:40003" {
					return fmt.Errorf("TCP at %s, UDP at %s; want [::]:40003", a, b)
				}
			}
			tcp, udp, err := both("0.0.0.0:40000")
			if err == nil {
				tcp.Close()
				udp.Close()
				return fmt.Errorf("port 40000 is in use and was given")
			}
			return nil
		}()
	}()
	if err := <-fail; err != nil {
		t.Error(err)
	}
}
