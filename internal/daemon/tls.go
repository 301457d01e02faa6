package daemon

import (
	"crypto/tls"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"berth"
	"berth/internal/server"
	"berth/internal/wire/certs"
)

// loadTLS reads the agent's certificates, if it has any. It refuses those that
// other agents would refuse.
func (d *Daemon) loadTLS() (err error) {
	t := &d.conf.TLS
	if !t.Enabled() {
		return nil
	}
	d.tls, err = certs.Load(certs.Options{
		CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile, CheckNames: t.VerifyServerHostname, VerifyHTTPS: t.VerifyHTTPSClient, MinHTTPS: t.MinHTTPS,
	})
	if err == nil {
		err = d.checkTLS()
	}
	if err != nil {
		return berth.Errorf(berth.Invalid, "tls: %w", err)
	}
	return nil
}

// checkTLS logs warnings about the loaded certificates. If RPC verifies names,
// it returns an error for a certificate whose name does not fit the agent's
// region and role.
func (d *Daemon) checkTLS() error {
	for _, w := range d.tls.Warnings(time.Now()) {
		d.log.Warn(w)
	}
	if t := &d.conf.TLS; !t.RPC || !t.VerifyServerHostname {
		return nil
	}
	return d.tls.Roles(d.conf.Region, d.conf.Server.Enabled)
}

// serverTLS is the TLS between servers and agents.
func (d *Daemon) serverTLS() (t server.TLS) {
	if c := &d.conf.TLS; c.RPC {
		t = server.TLS{Accept: d.tls.Accept(), Dial: d.tls.Dial(), Only: !c.UpgradeMode, Unnamed: !c.VerifyServerHostname}
	}
	return t
}

// httpTLS is the TLS of the HTTP API; nil is plain HTTP.
func (d *Daemon) httpTLS() *tls.Config {
	if !d.conf.TLS.HTTP {
		return nil
	}
	return d.tls.HTTPS()
}

// onHangup reloads the certificates at each SIGHUP, which scripts send after
// replacing the files. The rest of the configuration stays as it is. Call the
// function it returns to stop.
func (d *Daemon) onHangup() func() {
	hangups, end, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				d.reload()
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

// reload reads the certificates again. It only logs errors, as nobody waits for
// its result: a file that cannot be used leaves the old certificates in place.
// New connections use the new ones.
func (d *Daemon) reload() {
	if d.tls == nil {
		d.log.Warn("reloading the configuration is not supported; restart the agent, its tasks keep running")
		return
	}
	if err := d.tls.Reload(); err != nil {
		d.log.Error("cannot reload the certificates; the old ones stay in use", "error", err)
		return
	}
	if err := d.checkTLS(); err != nil {
		d.log.Error("other agents will refuse the reloaded certificate", "error", err)
		return
	}
	leaf := d.tls.Leaf()
	d.log.Info("certificates reloaded; the rest of the configuration is unchanged, as reloading it is not supported",
		slog.String("certificate", certs.Describe(leaf)), slog.Time("expires", leaf.NotAfter.UTC()))
}
