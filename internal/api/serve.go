package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/internal/sameorigin"
)

// Limits of the HTTP server (S-25).
const (
	bodyTime  = 60 * time.Second // for taking in the body of a request
	idleTime  = 90 * time.Second // between two requests on a connection
	drainTime = 5 * time.Second  // for requests in progress when the server stops

	// MaxHeader is how many bytes the headers of a request may have, and what
	// net/http adds to that.
	MaxHeader = 32 << 10

	// DefaultMaxConns is how many connections one client address may have.
	DefaultMaxConns = 100
)

// Limits are what a configuration says of the HTTP server.
type Limits struct {
	MaxConns   int           // from one client address at a time; 0 is no limit
	HeaderTime time.Duration // until a request's headers must be there, and before that the handshake of TLS; 0 is 5 s
	TLS        *tls.Config   // nil: none
	// Origins decides which requests are answered at all; nil: those to IP
	// addresses and localhost that no page of another site sent.
	Origins *sameorigin.Policy
}

// Serve answers HTTP on a listener until ctx ends. It waits for requests in
// progress, but not long.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, l Limits, log *slog.Logger) error {
	// No WriteTimeout: it would end blocking queries and streams. Each write
	// sets its own deadline.
	gate := originGate{policy: cmp.Or(l.Origins, &sameorigin.Policy{}), log: log}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !gate.admits(w, r) {
				return
			}
			// The limit is for taking in the request, not for waiting on the
			// answer of a blocking query.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			r.Body = &unhurried{ReadCloser: r.Body, then: func() { http.NewResponseController(w).SetReadDeadline(time.Time{}) }}
			if r.ContentLength == 0 {
				http.NewResponseController(w).SetReadDeadline(time.Time{})
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: cmp.Or(l.HeaderTime, 5*time.Second), IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// A query that waits must end when the server does.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var silent silent
	srv.ConnState = silent.note
	limited := &limitedListener{Listener: ln, most: l.MaxConns, secure: l.TLS != nil, open: map[string]int{}, refusing: make(chan struct{}, maxRefusals)}
	defer limited.refusals.Wait()
	ended := make(chan error, 1)
	go func() {
		if l.TLS == nil {
			ended <- srv.Serve(limited)
			return
		}
		srv.TLSConfig = l.TLS.Clone()
		srv.Protocols = new(http.Protocols) // what bounds connections then bounds requests
		srv.Protocols.SetHTTP1(true)
		ended <- srv.ServeTLS(limited, "", "")
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	silent.close()
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

// unhurried is a body that lifts the read deadline once it was read to its end.
// After an error the deadline stays: the server tries to take in what is left
// of the body before it closes, and must not do so for ever.
type unhurried struct {
	io.ReadCloser
	then func() // called at the end of the body
}

// Read implements io.Reader.
func (u *unhurried) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err == io.EOF {
		u.then()
	}
	return n, err
}

// silent are the connections on which nothing was asked yet. Shutdown takes
// those for busy for a while; there is nothing to wait for.
type silent struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	over  bool // the server stops
}

// note follows the state of a connection, as http.Server.ConnState. A new one
// after close is closed.
func (s *silent) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(s.conns, c)
	case s.over:
		c.Close()
	default:
		if s.conns == nil {
			s.conns = map[net.Conn]bool{}
		}
		s.conns[c] = true
	}
}

// close closes the silent connections, and those that come later.
func (s *silent) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for c := range s.conns {
		c.Close()
	}
}

// limitedListener refuses connections of a client that has too many.
type limitedListener struct {
	net.Listener
	most     int            // connections of one client; 0: no limit
	secure   bool           // TLS follows
	refusing chan struct{}  // holds one for each client that is told no
	refusals sync.WaitGroup // clients that are being told no

	mu   sync.Mutex
	open map[string]int // connections by clientKey
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
		l.refuse(c)
	}
}

// Limits of saying no.
const (
	maxRefusals = 64 // at a time; more connections are closed without a word
	refuseTime  = time.Second
)

// refuse sends an answer and closes the connection. Clients reject an answer
// that comes before their request, and closing with unread bytes can lose the
// answer, so it first reads the request for up to a second.
func (l *limitedListener) refuse(c net.Conn) {
	if l.secure { // nothing that could be said in time makes sense to the client
		c.Close()
		return
	}
	select {
	case l.refusing <- struct{}{}:
	default:
		c.Close()
		return
	}
	// Accepting goes on while a refused client is slow.
	l.refusals.Go(func() {
		defer func() { <-l.refusing }()
		defer c.Close()
		c.SetDeadline(time.Now().Add(refuseTime))
		b := make([]byte, 4<<10)
		if _, err := c.Read(b); err != nil {
			return
		}
		io.WriteString(c, tooMany)
		// The client sees the end of the answer, and what it still sends is
		// read away.
		half, ok := c.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			return
		}
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	})
}

// tooMany is the answer to a refused client.
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

// enter counts a connection for a client, and reports whether it may have it.
func (l *limitedListener) enter(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= l.most {
		return false
	}
	l.open[key]++
	return true
}

// exit takes a connection off the count.
func (l *limitedListener) exit(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] <= 0 {
		delete(l.open, key)
	}
}

// limitedConn is a counted connection. leave takes it off the count, however
// often it is called.
type limitedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
