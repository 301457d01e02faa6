package agent

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/limit"
	"berth/op"
)

// Limits of forwarded connections.
const (
	maxForwards = 256 // at a time, on one agent
	forwardDial = 10 * time.Second
	forwardPart = 32 << 10 // bytes in one message
)

var forwardsLimit = limit.Declare(limit.Info{
	Name: "forwarded_connections", Of: "Connections of alloc port-forward to tasks of an agent at a time", Unit: limit.Count, Default: maxForwards,
	Beyond: "429, and the connection is closed",
})

// forward connects a caller to a port of an allocation and passes bytes both
// ways, until both have nothing more to say, or one has broken off.
func (a *Agent) forward(ctx context.Context, q *op.ForwardPort, from op.Incoming) error {
	al, r, err := a.find(q.AllocID)
	if err != nil {
		return err
	}
	if r == nil || r.Ended() {
		return berth.Errorf(berth.Invalid, "allocation %s has ended, so nothing listens on its ports", al.ID)
	}
	addr, err := portAddress(al, q.Port)
	if err != nil {
		return err
	}
	done, err := a.forwards.take(forwardsLimit, maxForwards)
	if err != nil {
		return err
	}
	defer done()
	d := net.Dialer{Timeout: forwardDial}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return berth.Errorf(berth.Unavailable, "nothing answers on port %s of allocation %s: %w", q.Port, al.ID.Short(), err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := from.Accept(); err != nil {
		return err
	}
	up := make(chan error, 1)
	go func() { up <- toPort(from, conn.(*net.TCPConn)) }()
	err = fromPort(conn, from)
	if err == nil {
		err = <-up // the other direction may have more to say
		from.Interrupt()
		return err
	}
	conn.Close()
	from.Interrupt()
	<-up
	return err
}

// portAddress returns where a port of an allocation is reached on this machine.
// On the host's network that is one of the ports it was given, so that nobody
// reaches other programs of the machine by it.
func portAddress(al *op.Alloc, port string) (string, error) {
	if al.AllocatedResources == nil {
		return "", berth.Errorf(berth.NotFound, "port: allocation %s has no ports", al.ID)
	}
	var names []string
	number, _ := strconv.Atoi(port)
	for _, p := range al.AllocatedResources.Shared.Ports {
		if p.Label == port || number != 0 && (p.Value == number || p.To == number) {
			return net.JoinHostPort(reachable(p.HostIP), strconv.Itoa(p.Value)), nil
		}
		names = append(names, p.Label+" ("+strconv.Itoa(p.Value)+")")
	}
	for _, name := range slices.Sorted(maps.Keys(al.AllocatedResources.Tasks)) {
		for _, p := range al.AllocatedResources.Tasks[name].Ports() {
			if p.Label == port || number != 0 && (p.Value == number || p.To == number) {
				return net.JoinHostPort(reachable(p.HostIP), strconv.Itoa(p.Value)), nil
			}
			names = append(names, p.Label+" ("+strconv.Itoa(p.Value)+")")
		}
	}
	if len(names) == 0 {
		return "", berth.Errorf(berth.NotFound, "port: allocation %s has no ports; a network block of its group would give it some", al.ID)
	}
	return "", berth.Errorf(berth.NotFound, "port: allocation %s has no port %q: want one of %s", al.ID, berth.Clip(port, 64), strings.Join(names, ", "))
}

// reachable returns an address to dial for one that is listened on.
func reachable(ip string) string {
	if parsed := net.ParseIP(ip); parsed == nil || parsed.IsUnspecified() {
		return "127.0.0.1"
	}
	return ip
}

// toPort passes on what the caller sends.
func toPort(from op.Incoming, to *net.TCPConn) error {
	for {
		b, err := from.Recv()
		if err != nil { // it has left
			to.Close()
			return nil
		}
		switch b[0] {
		case op.PortData:
			if _, err := to.Write(b[1:]); err != nil {
				return berth.Errorf(berth.Unavailable, "the connection to the port: %w", err)
			}
		case op.PortEnd:
			return to.CloseWrite()
		default:
			to.Close()
			return berth.Errorf(berth.Invalid, "a message begins with the byte %d: want %d or %d", b[0], op.PortData, op.PortEnd)
		}
	}
}

// fromPort passes on what the task sends.
func fromPort(from net.Conn, to op.Incoming) error {
	b := make([]byte, 1+forwardPart)
	for {
		n, err := from.Read(b[1:])
		if n > 0 {
			b[0] = op.PortData
			if err := to.Send(b[:1+n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return to.Send([]byte{op.PortEnd})
		}
		if err != nil {
			return berth.Errorf(berth.Unavailable, "the connection to the port: %w", err)
		}
	}
}
