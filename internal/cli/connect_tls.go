package cli

import (
	"strconv"
	"strings"

	"berth"
	"berth/client"
)

// tlsFlags are the flags of a command about https.
type tlsFlags struct {
	caCert, caPath, clientCert, clientKey, serverName *string
	insecure, skipVerify                              *bool
}

func declareTLS(f *flags) *tlsFlags {
	return &tlsFlags{
		caCert:     f.String("ca-cert", "The `file` of the authorities, in PEM, that sign the certificates of agents. Otherwise BERTH_CACERT or NOMAD_CACERT say it; the system's are believed if they do not."),
		caPath:     f.String("ca-path", "A `folder` of such files, which counts if there is no -ca-cert. Otherwise BERTH_CAPATH or NOMAD_CAPATH say it."),
		clientCert: f.String("client-cert", "The `file` of the certificate to show to the agent. Otherwise BERTH_CLIENT_CERT or NOMAD_CLIENT_CERT say it."),
		clientKey:  f.String("client-key", "The `file` of its key, without a password. Otherwise BERTH_CLIENT_KEY or NOMAD_CLIENT_KEY say it."),
		serverName: f.String("tls-server-name", "The `name` that the agent's certificate must have, if it is not the host of the address. Otherwise BERTH_TLS_SERVER_NAME or NOMAD_TLS_SERVER_NAME say it."),
		skipVerify: f.Bool("tls-skip-verify", "Believe whoever answers, which protects from nobody who stands between. BERTH_SKIP_VERIFY and NOMAD_SKIP_VERIFY do the same."),
		insecure:   f.Bool("insecure", "The same as -tls-skip-verify."),
	}
}

// config puts flags over the environment. What the environment says is about
// https, and says nothing about a connection without.
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
		if *x.to = *x.flag; *x.to == "" && secure {
			*x.to, _ = p.env(x.env)
		}
		if x.file && *x.to != "" {
			*x.to = p.path(*x.to)
		}
	}
	if value, from := p.env("SKIP_VERIFY"); secure && value != "" {
		skip, err := strconv.ParseBool(value)
		if err != nil {
			return out, berth.Errorf(berth.Invalid, "%s: %.40q is neither true nor false", from, value)
		}
		out.SkipVerify = out.SkipVerify || skip
	}
	return out, nil
}
