package daemon

import (
	"crypto/tls"
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
