package daemon

import (
	"errors"
	"io/fs"
	"net"
	"net/http"

	"berth/internal/api"
	"berth/internal/audit"
)

// openAudit opens the audit log, if the configuration asks for one.
func (d *Daemon) openAudit() error {
	c := &d.conf.Audit
	if !c.Enabled {
		return nil
	}
	conf := audit.Config{
		Path: c.Path, Mode: fs.FileMode(c.Mode), MaxBytes: int64(c.RotateBytes), MaxAge: c.RotateDuration, MaxFiles: c.RotateMaxFiles,
	}
	for _, f := range c.Filters {
		conf.Filters = append(conf.Filters, audit.Filter{Endpoints: f.Endpoints, Stages: f.Stages, Operations: f.Operations})
	}
	l, err := audit.Open(conf)
	if err != nil {
		return err
	}
	d.audit = &api.Audit{Log: l, Enforced: c.Enforced, Node: d.conf.Name, IP: d.conf.HTTP.Addr, Logger: d.log}
	return nil
}

// closeAudit closes the audit log. Closing it again does nothing.
func (d *Daemon) closeAudit() {
	if d.audit == nil {
		return
	}
	if err := d.audit.Log.Close(); err != nil {
		d.log.Error("the end of the audit log cannot be brought to disk", "error", err)
	}
}

// serves sets what only the HTTP API of a server needs.
func (d *Daemon) serves(c *api.Config) {
	i := &d.conf.Server.Introduction
	c.Introductions = api.Introductions{Enforcement: i.Enforcement, DefaultTTL: i.DefaultTTL, MaxTTL: i.MaxTTL}
	c.Audit = d.audit
	c.TokenWrites, c.NamespaceWrites, c.TokenFailures = d.conf.Limits.TokenWrites, d.conf.Limits.NamespaceWrites, api.DefaultTokenFailures
}

// taskAPI serves the HTTP API on the socket of a task.
func (d *Daemon) taskAPI(ln net.Listener, who string) {
	err := d.api.ServeTask(ln, who, d.log)
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		d.log.Warn("the socket of a task has ended", "task", who, "error", err)
	}
}
