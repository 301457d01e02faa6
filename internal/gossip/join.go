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

// DefaultPort is where servers gossip if nothing else is said.
const DefaultPort = 4648

// Join is whom a server asks for the others.
type Join struct {
	Addrs    []string      // host, host:port, or the same of IPv6
	Interval time.Duration // between two attempts; 0 is 30 s
	Max      int           // attempts; 0 is no end
}

// Join asks all of the addresses for the servers that they know, and returns
// how many of them answered; an error if none did.
func (p *Pool) Join(ctx context.Context, addrs []string) (n int, err error) {
	var errs []error
	for _, a := range addrs {
		a, err := HostPort(a, DefaultPort)
		if err != nil {
			errs = append(errs, err)
			continue
		}
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

// reason is why nobody answered, without the frame around it.
func reason(addr string, err error) error {
	if err == nil {
		err = errors.New("nobody answers")
	}
	text := strings.TrimSpace(strings.ReplaceAll(err.Error(), "\n", " "))
	if _, rest, ok := strings.Cut(text, "* "); ok {
		text = rest
	}
	return berth.Errorf(berth.Unavailable, "%s: %s", addr, text)
}

// HostPort completes an address that lacks a port, and writes one of IPv6 as
// everybody else does.
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
		return "", berth.Errorf(berth.Invalid, "%.100q is not an address, nor one with a port", addr)
	}
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, text), nil
}

// Retry joins as Join does, again and again until another server is known. It
// returns an error only when so many attempts as may be have failed. That this
// server itself is among the addresses is no attempt of any kind: lists may be
// the same for all servers.
func (p *Pool) Retry(ctx context.Context, j Join) error {
	if j.Interval <= 0 {
		j.Interval = 30 * time.Second
	}
	for failed := 0; ; {
		_, err := p.Join(ctx, p.others(j.Addrs))
		switch {
		case p.company():
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failed++
			p.log.Warn("no server could be joined", "attempt", failed, "again", j.Interval, "error", err)
		}
		if j.Max > 0 && failed >= j.Max {
			return fmt.Errorf("none of %s could be joined in %d attempts: %w", strings.Join(j.Addrs, ", "), failed, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(j.Interval):
		}
	}
}

// others leaves out the addresses that are this server's own.
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

// company says whether another server is there.
func (p *Pool) company() bool {
	for _, m := range p.Members() {
		if m.Name != p.self && m.Status == Alive {
			return true
		}
	}
	return false
}
