package cli

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

// loadTLS reads the certificates of an agent that has some, and refuses those
// that others would refuse.
func (a *agentProcess) loadTLS() (err error) {
	t := &a.conf.TLS
	if !t.Enabled() {
		return nil
	}
	a.tls, err = certs.Load(certs.Options{
		CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile, CheckNames: t.VerifyServerHostname, VerifyHTTPS: t.VerifyHTTPSClient, MinHTTPS: t.MinHTTPS,
	})
	if err == nil {
		err = a.checkTLS()
	}
	if err != nil {
		return berth.Errorf(berth.Invalid, "tls: %w", err)
	}
	return nil
}

func (a *agentProcess) checkTLS() error {
	for _, w := range a.tls.Warnings(time.Now()) {
		a.log.Warn(w)
	}
	if t := &a.conf.TLS; !t.RPC || !t.VerifyServerHostname {
		return nil
	}
	return a.tls.Roles(a.conf.Region, a.conf.Server.Enabled)
}

// serverTLS is how servers and agents prove who they are to each other.
func (a *agentProcess) serverTLS() (t server.TLS) {
	if c := &a.conf.TLS; c.RPC {
		t = server.TLS{Accept: a.tls.Accept(), Dial: a.tls.Dial(), Only: !c.UpgradeMode, Unnamed: !c.VerifyServerHostname}
	}
	return t
}

// httpTLS is how the HTTP API proves who it is.
func (a *agentProcess) httpTLS() *tls.Config {
	if !a.conf.TLS.HTTP {
		return nil
	}
	return a.tls.HTTPS()
}

// onHangup reads the certificates again whenever the process is told to by a
// hangup, as scripts do after they have replaced them. The rest of the
// configuration stays as it is. It returns what undoes that.
func (a *agentProcess) onHangup() func() {
	hangups, end, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				a.reload()
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

func (a *agentProcess) reload() {
	if a.tls == nil {
		a.log.Warn("to read the configuration again is not built yet; restart the agent, its tasks stay")
		return
	}
	if err := a.tls.Reload(); err != nil {
		a.log.Error("the certificates were not read again; those from before stay", "error", err)
		return
	}
	if err := a.checkTLS(); err != nil {
		a.log.Error("others will refuse the certificate that was read", "error", err)
		return
	}
	leaf := a.tls.Leaf()
	a.log.Info("the certificates were read again; the rest of the configuration was not, which is not built yet",
		slog.String("certificate", certs.Describe(leaf)), slog.Time("expires", leaf.NotAfter.UTC()))
}
