package daemon

import (
	"net"
	"os"
)

// notify tells systemd how this agent is, if systemd started it as a service of
// the type notify: READY=1, RELOADING=1 or STOPPING=1. Without systemd it does
// nothing.
func (d *Daemon) notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // @ is an abstract name
	if err == nil {
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		d.log.Warn("systemd cannot be told how this agent is", "socket", path, "error", err)
	}
}
