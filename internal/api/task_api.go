package api

import (
	"log/slog"
	"net"
	"net/http"
	"time"

	"berth"
	"berth/internal/accept"
)

// taskConns is how many connections the socket of a task may have.
const taskConns = 100

// ServeTask answers HTTP on the socket of a task, until the listener is closed. In
// contrast to the HTTP port, every request must have a valid token there, with
// access control or without. who names the task in logs.
func (s *Server) ServeTask(ln net.Listener, who string, log *slog.Logger) error {
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = who
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
			r.Body = &unhurried{ReadCloser: r.Body, then: func() { http.NewResponseController(w).SetReadDeadline(time.Time{}) }}
			if r.ContentLength == 0 {
				http.NewResponseController(w).SetReadDeadline(time.Time{})
			}
			if err := s.Authenticate(r.Context(), token(r), who); err != nil {
				if berth.KindOf(err) == "" {
					err = berth.Errorf(berth.Unavailable, "the token cannot be checked: %w", err)
				}
				s.unaudited(w, r, err)
				return
			}
			s.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: idleTime, MaxHeaderBytes: MaxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	// A query that waits must end when the task does.
	defer srv.Close()
	return srv.Serve(&taskListener{ln, accept.Gate{Most: taskConns}})
}

// taskListener closes connections beyond the limit of a task.
type taskListener struct {
	net.Listener
	gate accept.Gate
}

// Accept implements net.Listener.
func (l *taskListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		in, verdict := l.gate.Admit(c)
		if verdict == accept.Admitted {
			return in, nil
		}
		_ = c.Close()
	}
}
