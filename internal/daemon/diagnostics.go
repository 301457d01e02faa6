package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"berth"
	"berth/internal/config"
	"berth/internal/diag"
	"berth/op"
)

// live is what a reload of the configuration changes.
type live struct {
	debug   bool
	headers map[string]string
}

// liveOf returns that part of a configuration.
func liveOf(c *config.Config) *live { return &live{c.EnableDebug, c.ResponseHeaders} }

// diagnostics implements api.Diagnostics and agent.Diagnostics.
type diagnostics struct{ d *Daemon }

// signOfLife is how often a reader of a quiet log gets an empty frame.
const signOfLife = 10 * time.Second

// Monitor implements api.Diagnostics.
func (x diagnostics) Monitor(ctx context.Context, q *op.MonitorQuery, send func([]byte) error) error {
	if x.d.conf.Output == nil {
		return berth.Errorf(berth.Unavailable, "the log of this agent cannot be followed")
	}
	level, ok := config.Level(q.LogLevel)
	if q.LogLevel == "" {
		level, ok = slog.LevelInfo, true
	}
	if !ok {
		return berth.Errorf(berth.Invalid, "log_level: unknown log level %.40q: want trace, debug, info, warn or error", q.LogLevel)
	}
	log := x.d.conf.Output.all.Follow(level, diag.Format{JSON: q.LogJSON, Source: q.LogIncludeLocation})
	defer log.Close()
	quiet := time.NewTicker(signOfLife)
	defer quiet.Stop()
	for b := []byte(nil); ; {
		if err := send(b); err != nil { // the first tells the caller that lines are followed from now on
			return err
		}
		select {
		case <-log.Ready():
			b = log.Take()
		case <-quiet.C:
			b = nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Export implements api.Diagnostics.
func (x diagnostics) Export(_ context.Context, q *op.ExportQuery, send func([]byte) error) error {
	switch {
	case q.ServiceName != "":
		return berth.Errorf(berth.Invalid, "service_name: reading the journal is not supported: use journalctl -u on the machine, or log_file in the configuration and on_disk=true")
	case q.LogsSince != "" || q.Follow:
		return berth.Errorf(berth.Invalid, "logs_since, follow: are not supported with on_disk=true, which sends the whole log file")
	case !q.OnDisk:
		return berth.Errorf(berth.Invalid, "on_disk: must be true: the log file is what can be exported")
	case x.d.conf.Config.Log.File == "":
		return berth.Errorf(berth.Invalid, "on_disk: this agent writes no log file: set log_file in its configuration")
	}
	f, err := os.Open(x.d.conf.Config.Log.File)
	if err != nil {
		return berth.Errorf(berth.Unavailable, "the log file cannot be read: %w", err)
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := f.Read(b)
		if n > 0 {
			if err := send(b[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Profile implements api.Diagnostics.
func (x diagnostics) Profile(ctx context.Context, q *op.ProfileQuery) (*op.ProfileTaken, error) {
	if q.Seconds < 0 || q.Seconds > diag.MostSeconds {
		return nil, berth.Errorf(berth.Invalid, "seconds: must be from 0 to %d, got %d", diag.MostSeconds, q.Seconds)
	}
	got, err := diag.Profile(ctx, q.Profile, q.Seconds, q.Debug, q.GC > 0)
	switch {
	case errors.Is(err, diag.ErrUnknownProfile):
		return nil, berth.Errorf(berth.NotFound, "%w", err)
	case errors.Is(err, diag.ErrBusy):
		return nil, berth.Errorf(berth.Conflict, "profile: %w", err)
	case err != nil:
		return nil, err
	}
	return &op.ProfileTaken{Payload: got}, nil
}

// Host implements api.Diagnostics.
func (x diagnostics) Host() *op.AgentHost {
	id := x.d.conf.Name
	if x.d.agent != nil {
		id = x.d.agent.NodeID().String()
	} else if x.d.folder != nil {
		id = x.d.folder.ID
	}
	return &op.AgentHost{AgentID: id, HostData: diag.ReadHost()}
}

// Debug implements api.Diagnostics.
func (x diagnostics) Debug() bool { return x.d.live.Load().debug }

// Reload implements api.Diagnostics.
func (x diagnostics) Reload() error { return x.d.Reload() }

// headers returns the headers of every answer.
func (d *Daemon) headers() map[string]string { return d.live.Load().headers }

// withProfiles serves profiles at /debug/pprof/ while enable_debug is set.
func (d *Daemon) withProfiles(next http.Handler) http.Handler {
	const root = "/debug/pprof/"
	mux := http.NewServeMux()
	mux.HandleFunc(root, pprof.Index)
	mux.HandleFunc(root+"cmdline", pprof.Cmdline)
	mux.HandleFunc(root+"profile", pprof.Profile)
	mux.HandleFunc(root+"symbol", pprof.Symbol)
	mux.HandleFunc(root+"trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, root) && r.URL.Path+"/" != root {
			next.ServeHTTP(w, r)
			return
		}
		if !d.live.Load().debug {
			http.Error(w, "profiles are off: set enable_debug in the configuration of this agent", http.StatusNotFound)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
