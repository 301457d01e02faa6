package daemon

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"berth/internal/wire/certs"
)

// onHangup reloads the configuration at each SIGHUP. Call the function it returns
// to stop.
func (d *Daemon) onHangup() func() {
	hangups, end, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				if err := d.Reload(); err != nil {
					d.log.Error("cannot reload the configuration; the old one stays in force", "error", err)
				}
			case <-end:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(end)
		<-ended
	}
}

// Reload reads the configuration again and puts in force what can change while the
// agent runs: log_level, enable_debug, http_api_response_headers, and the
// certificates. A configuration or certificate that cannot be used changes
// nothing. Everything else needs a restart, which leaves tasks running.
func (d *Daemon) Reload() error {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	d.notify("RELOADING=1")
	defer d.notify("READY=1")
	var changed []string
	if d.conf.Reload != nil {
		c, err := d.conf.Reload()
		if err != nil {
			return err
		}
		d.live.Store(liveOf(c))
		if d.conf.Output != nil {
			d.conf.Output.all.Level.Set(c.LogLevel)
		}
		changed = append(changed, "log_level", "enable_debug", "http_api_response_headers")
	}
	if d.tls != nil {
		if err := d.reloadTLS(); err != nil {
			return err
		}
		changed = append(changed, "tls")
	}
	d.log.Info("configuration reloaded; what is not listed needs a restart of the agent, which leaves tasks running", "read_again", strings.Join(changed, " "))
	return nil
}

// reloadTLS reads the certificates again. New connections use the new ones.
func (d *Daemon) reloadTLS() error {
	if err := d.tls.Reload(); err != nil {
		d.log.Error("cannot reload the certificates; the old ones stay in use", "error", err)
		return err
	}
	if err := d.checkTLS(); err != nil {
		d.log.Error("other agents will refuse the reloaded certificate", "error", err)
		return err
	}
	leaf := d.tls.Leaf()
	d.log.Info("certificates reloaded", slog.String("certificate", certs.Describe(leaf)), slog.Time("expires", leaf.NotAfter.UTC()))
	return nil
}
