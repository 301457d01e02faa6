package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"berth"
)

// DefaultPort is the default gossip port.
const DefaultPort = 4648

// Join configures which servers to join.
type Join struct {
	Addrs    []string      // host or host:port, also with IPv6 addresses
	Interval time.Duration // between two attempts; 0 means 30 s
	Max      int           // maximum number of failed attempts; 0 means no limit
}

// Join contacts all of the addresses to learn about the servers that they know,
// and returns how many answered. It is an error if none did.
func (p *Pool) Join(ctx context.Context, addrs []string) (n int, err error) {
	var errs []error
	for _, a := range addrs {
		a, err := HostPort(a, DefaultPort)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// One address at a time, so that each has its own error.
		var got int
		err = p.call(ctx, func() (err error) {
			got, err = p.serf.Load().Join([]string{a}, true)
			return err
		})
		if ctx.Err() != nil { // got may still be written
			return n, context.Cause(ctx)
		}
		n += got
		if got == 0 {
			errs = append(errs, reason(a, err))
		}
	}
	if n > 0 {
		return n, nil
	}
	return 0, errors.Join(errs...)
}

// reason returns why an address did not answer, without serf's framing.
func reason(addr string, err error) error {
	if err == nil {
		err = errors.New("no answer")
	}
	text := strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " "))
	if _, rest, ok := strings.Cut(text, "* "); ok {
		text = rest
	}
	return berth.Errorf(berth.Unavailable, "%s: %s", addr, text)
}

// HostPort adds a port to an address that lacks one, and normalizes IPv6
// addresses.
func HostPort(addr string, port int) (string, error) {
	bare := addr
	if inner, ok := strings.CutPrefix(addr, "["); ok && strings.HasSuffix(inner, "]") {
		bare = strings.TrimSuffix(inner, "]")
	}
	if ip := net.ParseIP(bare); ip != nil {
		return net.JoinHostPort(ip.String(), strconv.Itoa(port)), nil
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		host, text = addr, strconv.Itoa(port)
	}
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 65535 || host == "" || net.ParseIP(host) == nil && strings.ContainsAny(host, ":/[] ") {
		return "", berth.Errorf(berth.Invalid, "invalid address %.100q: want host or host:port", addr)
	}
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, text), nil
}

// Retry calls Join again and again until it knows another server. It returns an
// error only after the maximum number of failed attempts. This server's own
// address may be among the addresses and does not count as an attempt, so that
// all servers can have the same list.
func (p *Pool) Retry(ctx context.Context, j Join) error {
	if j.Interval <= 0 {
		j.Interval = 30 * time.Second
	}
	for failed := 0; ; {
		_, err := p.Join(ctx, p.others(j.Addrs))
		// Another server may have found this one in the meantime.
		switch {
		case p.hasOthers():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failed++
			p.log.Warn("cannot join any server", "attempt", failed, "again", j.Interval, "error", err)
		}
		if j.Max > 0 && failed >= j.Max {
			return fmt.Errorf("cannot join any of %s in %d attempts: %w", strings.Join(j.Addrs, ", "), failed, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(j.Interval):
		}
	}
}

// others returns the addresses that are not this server's own.
func (p *Pool) others(addrs []string) (out []string) {
	self := p.serf.Load().LocalMember()
	own := address(self.Addr, self.Port)
	for _, a := range addrs {
		if full, err := HostPort(a, DefaultPort); err != nil || full != own {
			out = append(out, a)
		}
	}
	return out
}

// hasOthers reports whether another server is alive.
func (p *Pool) hasOthers() bool {
	for _, m := range p.Members() {
		if m.Name != p.self && m.Status == Alive {
			return true
		}
	}
	return false
}
