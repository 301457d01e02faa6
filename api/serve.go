package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of the HTTP server (S-25).
const (
	bodyTime  = 60 * time.Second
	idleTime  = 90 * time.Second
	maxHeader = 32 << 10
	drainTime = 5 * time.Second

	// DefaultMaxConns is how many connections one client address may have.
	DefaultMaxConns = 100
)

// Limits are what a configuration says of the HTTP server.
type Limits struct {
	MaxConns   int           // from one client address at a time; 0 is no limit
	HeaderTime time.Duration // until a request's headers must be there; 0 is 5 s
}

// Serve answers HTTP on a listener until ctx ends. It waits for requests in
// progress, but not long.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, l Limits, log *slog.Logger) error {
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// The limit is for taking in the request, not for waiting on the
			// answer of a blocking query.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			r.Body = &unhurried{ReadCloser: r.Body, then: func() { http.NewResponseController(w).SetReadDeadline(time.Time{}) }}
			if r.ContentLength == 0 {
				http.NewResponseController(w).SetReadDeadline(time.Time{})
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: cmp.Or(l.HeaderTime, 5*time.Second), IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// A query that waits must end when the server does.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(&limitedListener{Listener: ln, most: l.MaxConns, open: map[string]int{}}) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if srv.Shutdown(drain) != nil {
		srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// unhurried is a body that lifts the read deadline once it was read.
type unhurried struct {
	io.ReadCloser
	then func()
}

// Read implements io.Reader.
func (u *unhurried) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err != nil {
		u.then()
	}
	return n, err
}

// limitedListener refuses connections of a client that has too many.
type limitedListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[string]int
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.most == 0 {
			return c, err
		}
		key := clientKey(c.RemoteAddr())
		if l.enter(key) {
			return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { l.exit(key) })}, nil
		}
		c.SetWriteDeadline(time.Now().Add(time.Millisecond))
		io.WriteString(c, tooMany)
		c.Close()
	}
}

// tooMany says to a client why it is refused, before it said what it wants.
const tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 39\r\nConnection: close\r\n\r\n" +
	"Your IP is issuing too many connections"

// clientKey is the address that a limit is about: an IPv6 client has a whole
// /64 to call from.
func clientKey(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
		return ip.Mask(net.CIDRMask(64, 128)).String()
	}
	return host
}

func (l *limitedListener) enter(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= l.most {
		return false
	}
	l.open[key]++
	return true
}

func (l *limitedListener) exit(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] <= 0 {
		delete(l.open, key)
	}
}

type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
