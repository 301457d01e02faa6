package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"berth/client"
	"berth/op"
)

// allocPortForwardCommand makes a port of an allocation reachable on this
// machine.
func allocPortForwardCommand() *command {
	return &command{
		name: "alloc port-forward", args: "<allocation> [local:]<port>", synopsis: "Reach a port of an allocation on this machine", min: 1, max: 2,
		example: "alloc port-forward 0af996ed 8080:http",
		help: `Listens on this machine and passes each connection to a port of an allocation, through the agent that the command talks to. So the
			node itself need not be reachable. The port is one of the allocation's, by label or number. The local port is the same number as the port's, or the one before
			the colon; 0 is any free one. The allocation is given by ID or prefix. With -job, there is no allocation argument, and the command picks one of the job's
			allocations, preferably a running one. Only TCP is forwarded. The command ends when it is interrupted.`,
		setup: func(f *flags) action {
			x := portForward{
				address: f.FlagSet.String("bind", "127.0.0.1", "The local `address` to listen on. Anyone who reaches it reaches the port."),
				job:     f.String("job", "Pick an allocation of this `job`, given by ID or unique prefix."),
				group:   f.String("group", "With -job: pick an allocation of this `group`."),
			}
			return x.run
		},
	}
}

// portForward holds the flags of "alloc port-forward".
type portForward struct{ address, job, group *string }

// run listens until it is interrupted.
func (x portForward) run(ctx context.Context, c *call) error {
	args := c.args
	if *x.job == "" {
		args = args[1:]
	}
	switch {
	case len(args) != 1:
		return c.usagef("want an allocation, or -job, and one port")
	case *x.group != "" && *x.job == "":
		return c.usagef("-group requires -job")
	}
	local, port, given := strings.Cut(args[0], ":")
	if !given {
		local, port = "", args[0]
	}
	if n, err := strconv.ParseUint(or(local, "0"), 10, 16); err != nil || port == "" {
		return c.usagef("the port must be PORT or LOCAL:PORT with a local number from 0 to 65535, got %q", args[0])
	} else if local == "" && n == 0 {
		local = "0"
	}
	var a op.Alloc
	var err error
	if *x.job != "" {
		a, err = c.allocOfJob(ctx, *x.job, *x.group)
	} else {
		a, err = c.findAlloc(ctx, c.args[0])
	}
	if err != nil {
		return err
	}
	number := portNumber(&a, port)
	if !given && number > 0 {
		local = strconv.Itoa(number)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(*x.address, local))
	if err != nil {
		return fmt.Errorf("the local port cannot be used; choose another with LOCAL:%s: %w", clean(port), err)
	}
	fmt.Fprintf(c.Out, "Forwarding %s to port %s of allocation %s\n", ln.Addr(), clean(port), a.ID.Short())
	var conns sync.WaitGroup
	defer conns.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	q := op.ForwardPort{AllocID: a.ID.String(), Port: port, Query: op.Query{Namespace: a.Namespace}}
	out := &shared{out: c.Out, err: c.Err}
	for {
		conn, err := ln.Accept()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		conns.Go(func() {
			if err := forwardConn(ctx, c.client, q, conn.(*net.TCPConn)); err != nil && ctx.Err() == nil {
				out.note("A connection from %s has failed: %s", conn.RemoteAddr(), clean(err.Error()))
			}
		})
	}
}

// portNumber returns the number of a port of an allocation, 0 if it has none of
// that name or number.
func portNumber(a *op.Alloc, port string) int {
	number, _ := strconv.Atoi(port)
	for _, task := range append([]string{""}, tasksOf(a)...) { // the group's first
		for _, p := range a.AllocatedResources.PortsOf(task) {
			if p.Label == port || number > 0 && (p.Value == number || p.To == number) {
				return p.Value
			}
		}
	}
	return number
}

// forwardConn passes bytes between a connection and a port, until both have
// nothing more to say.
func forwardConn(ctx context.Context, cl *client.Client, q op.ForwardPort, conn *net.TCPConn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	to, err := client.Open(ctx, cl, op.PortForward, q)
	if err != nil {
		return err
	}
	defer to.Close()
	sent := make(chan error, 1)
	go func() { sent <- sendConn(conn, to) }()
	for {
		b, err := to.Recv()
		if errors.Is(err, io.EOF) {
			return nil // both directions are done, or the far end is
		}
		if err != nil {
			return err
		}
		switch b[0] {
		case op.PortData:
			if _, err := conn.Write(b[1:]); err != nil {
				return err
			}
		case op.PortEnd:
			if err := conn.CloseWrite(); err != nil {
				return err
			}
		}
	}
}

// sendConn passes on what comes from a connection, to its end.
func sendConn(from net.Conn, to op.Duplex) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b[1:])
		if n > 0 {
			b[0] = op.PortData
			if err := to.Send(b[:1+n]); err != nil {
				return err
			}
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			to.Close()
			return err
		}
		return to.Send([]byte{op.PortEnd})
	}
}
