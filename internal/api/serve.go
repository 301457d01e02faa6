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

	"berth/internal/accept"
	"berth/internal/limit"
	"berth/internal/sameorigin"
	"berth/internal/throttle"
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
	MaxTotal   int           // from all addresses together; 0 is no limit
	HeaderTime time.Duration // until a request's headers must be there, and before that the handshake of TLS; 0 is 5 s
	TLS        *tls.Config   // nil: none
	// Origins decides which requests are answered at all; nil: those to IP
	// addresses and localhost that no page of another site sent.
	Origins *sameorigin.Policy
	// Headers returns headers that every answer has; nil: none.
	Headers func() map[string]string
}

// Serve answers HTTP on a listener until ctx ends. It waits for requests in
// progress, but not long.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, l Limits, log *slog.Logger) error {
	// No WriteTimeout: it would end blocking queries and streams. Each write
	// sets its own deadline.
	gate := originGate{policy: cmp.Or(l.Origins, &sameorigin.Policy{}), log: log}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if l.Headers != nil {
				for name, value := range l.Headers() {
					w.Header().Set(name, value)
				}
			}
			if !gate.admits(w, r) {
				return
			}
			// The limit is for taking in the request, not for waiting on the
			// answer of a blocking query.
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			read := func() {
				http.NewResponseController(w).SetReadDeadline(time.Time{})
				requestRead(r.Context())
			}
			r.Body = &unhurried{ReadCloser: r.Body, then: read}
			if r.ContentLength == 0 {
				read()
			}
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: cmp.Or(l.HeaderTime, 5*time.Second), IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// A query that waits must end when the server does.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return withConn(withProgress(ctx, c), c) },
	}
	var silent silent
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		silent.note(c, state)
		noteRequest(c, state)
	}
	port := limited(ln, l, log)
	defer port.refusals.Wait()
	ended := make(chan error, 1)
	go func() {
		if l.TLS == nil {
			ended <- srv.Serve(port)
			return
		}
		srv.TLSConfig = l.TLS.Clone()
		srv.Protocols = new(http.Protocols) // what bounds connections then bounds requests
		srv.Protocols.SetHTTP1(true)
		ended <- srv.ServeTLS(port, "", "")
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

// limitedListener refuses connections beyond its gate's limits.
type limitedListener struct {
	*accept.Listener
	gate     accept.Gate
	log      *throttle.Log
	secure   bool           // TLS follows
	refusing chan struct{}  // holds one for each client that is being refused
	refusals sync.WaitGroup // clients that are being refused
}

// limited returns a listener over ln that refuses what is beyond the limits.
func limited(ln net.Listener, l Limits, log *slog.Logger) *limitedListener {
	warn := throttle.New(log, 1)
	// Clients that are told why they are refused have descriptors as well.
	refusals := maxRefusals
	if l.MaxTotal > 0 {
		refusals = min(refusals, max(1, l.MaxTotal/8))
	}
	return &limitedListener{
		Listener: accept.Listen(ln, warn), gate: accept.Gate{Most: l.MaxTotal, PerHost: l.MaxConns},
		log: warn, secure: l.TLS != nil, refusing: make(chan struct{}, refusals),
	}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, verdict := l.gate.Admit(c)
		connsLimit.Use(int64(l.gate.Open()), int64(l.gate.Most))
		switch verdict {
		case accept.Admitted:
			return &lingerConn{Conn: in, raw: c, listener: l}, nil
		case accept.HostFull:
			connsPerAddrLimit.Use(int64(l.gate.PerHost), int64(l.gate.PerHost), "address", c.RemoteAddr())
			connsPerAddrLimit.Refuse("address", c.RemoteAddr())
			l.refuse(c, tooMany)
		case accept.Full:
			connsLimit.Refuse("address", c.RemoteAddr())
			l.refuse(c, allTaken)
		}
	}
}

// The limits of connections.
var (
	connsLimit = limit.Declare(limit.Info{
		Name: "http_connections", Of: "Connections to the HTTP port: 5/16 of the file descriptors that are not kept for files (RLIMIT_NOFILE), at most 16384", Unit: limit.Count,
		Beyond: "503 without TLS, and the connection is closed",
	})
	connsPerAddrLimit = limit.Declare(limit.Info{
		Name: "http_connections_per_address", Of: "Connections to the HTTP port from one address (an IPv6 /64 is one)", Unit: limit.Count, Default: DefaultMaxConns,
		Key: "limits.http_max_conns_per_client", Beyond: "429 without TLS, and the connection is closed",
	})
)

// Limits of refusals.
const (
	maxRefusals = 64 // at a time; more connections are closed without a word
	refuseTime  = time.Second
)

// refuse sends an answer and closes the connection. Clients reject an answer
// that comes before their request, and closing with unread bytes can lose the
// answer, so it first reads the request for up to a second.
func (l *limitedListener) refuse(c net.Conn, answer string) {
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
		io.WriteString(c, answer)
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

// The answers to refused clients.
const (
	tooMany = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 39\r\nConnection: close\r\n\r\n" +
		"Your IP is issuing too many connections"
	allTaken = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 35\r\nConnection: close\r\nRetry-After: 1\r\n\r\n" +
		"This agent has too many connections"
)

// clientKey is the client that an address belongs to, see [accept.Host].
func clientKey(a net.Addr) string {
	if p := accept.Host(a); p.IsValid() {
		return p.String()
	}
	return a.String()
}
