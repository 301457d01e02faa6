package cli

import (
	"strconv"
	"strings"

	"berth"
	"berth/client"
)

// tlsFlags are the flags for HTTPS.
type tlsFlags struct {
	caCert, caPath, clientCert, clientKey, serverName *string
	insecure, skipVerify                              *bool
}

// declareTLS declares the flags for HTTPS. They have no effect on an address
// that is not HTTPS.
func declareTLS(f *flags) *tlsFlags {
	return &tlsFlags{
		caCert:     f.String("ca-cert", "A PEM `file` of CA certificates that verify the agent's certificate. Defaults to $BERTH_CACERT, then $NOMAD_CACERT, then the system's CAs."),
		caPath:     f.String("ca-path", "A `directory` of such files, used if -ca-cert is not set. Defaults to $BERTH_CAPATH, then $NOMAD_CAPATH."),
		clientCert: f.String("client-cert", "A PEM `file` with the client certificate to present to the agent. Defaults to $BERTH_CLIENT_CERT, then $NOMAD_CLIENT_CERT."),
		clientKey:  f.String("client-key", "A PEM `file` with the unencrypted key of the client certificate. Defaults to $BERTH_CLIENT_KEY, then $NOMAD_CLIENT_KEY."),
		serverName: f.String("tls-server-name", "The `name` to expect in the agent's certificate, if it differs from the host of the address. Defaults to $BERTH_TLS_SERVER_NAME, then $NOMAD_TLS_SERVER_NAME."),
		skipVerify: f.Bool("tls-skip-verify", "Skip TLS certificate verification (insecure). Setting $BERTH_SKIP_VERIFY or $NOMAD_SKIP_VERIFY to true does the same."),
		insecure:   f.Bool("insecure", "Alias of -tls-skip-verify."),
	}
}

// config merges flags and environment; flags win. The environment is ignored if
// the address is not HTTPS.
func (t *tlsFlags) config(p *Program, address string) (out client.TLS, err error) {
	out.SkipVerify = *t.skipVerify || *t.insecure
	secure := strings.HasPrefix(address, "https:")
	for _, x := range []struct {
		flag *string
		env  string
		to   *string
		file bool
	}{
		{t.caCert, "CACERT", &out.CACert, true}, {t.caPath, "CAPATH", &out.CAPath, true},
		{t.clientCert, "CLIENT_CERT", &out.ClientCert, true}, {t.clientKey, "CLIENT_KEY", &out.ClientKey, true},
		{t.serverName, "TLS_SERVER_NAME", &out.ServerName, false},
	} {
		// File names are relative to the program's directory, wherever they
		// come from.
		if *x.to = *x.flag; *x.to == "" && secure {
			*x.to, _ = p.env(x.env)
		}
		if x.file && *x.to != "" {
			*x.to = p.path(*x.to)
		}
	}
	// A value that is neither true nor false must not switch verification off,
	// nor go unnoticed.
	if value, from := p.env("SKIP_VERIFY"); secure && value != "" {
		skip, err := strconv.ParseBool(value)
		if err != nil {
			return out, berth.Errorf(berth.Invalid, "%s must be true or false, got %.40q", from, value)
		}
		out.SkipVerify = out.SkipVerify || skip
	}
	return out, nil
}
