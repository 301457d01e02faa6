package config

import (
	"crypto/tls"
	"maps"
	"slices"
)

// TLS, by the keys of Nomad's tls block. Two things are stricter here. Between
// agents there is TLS 1.3 alone. And certificates must say what their holders
// are unless verify_server_hostname is false: with Nomad that is so only if it
// is true, and otherwise whoever has a certificate of the authority, such as
// any agent, can pass for a server.

var tlsKeys = table{
	"http":                            flag(func(c *Config) *bool { return &c.TLS.HTTP }),
	"rpc":                             flag(func(c *Config) *bool { return &c.TLS.RPC }),
	"rpc_upgrade_mode":                flag(func(c *Config) *bool { return &c.TLS.UpgradeMode }),
	"verify_server_hostname":          flag(func(c *Config) *bool { return &c.TLS.VerifyServerHostname }),
	"verify_https_client":             flag(func(c *Config) *bool { return &c.TLS.VerifyHTTPSClient }),
	"ca_file":                         text(func(c *Config) *string { return &c.TLS.CAFile }),
	"cert_file":                       text(func(c *Config) *string { return &c.TLS.CertFile }),
	"key_file":                        text(func(c *Config) *string { return &c.TLS.KeyFile }),
	"tls_min_version":                 tlsMinVersion,
	"tls_cipher_suites":               idle("those of TLS 1.3 cannot be chosen, and of 1.2 only the safe ones are there"),
	"tls_prefer_server_cipher_suites": either,
}

var tlsVersions = map[string]uint16{"tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13}

func tlsVersion(v uint16) string {
	for name, n := range tlsVersions {
		if n == v {
			return name
		}
	}
	return ""
}

// tlsMinVersion reads the least version. What Nomad's files say of 1.2 is
// obeyed where people call; between agents nobody needs it.
func tlsMinVersion(d *decoder, path string, n *node) {
	s, ok := d.line(path, n)
	if !ok || s == "" {
		return
	}
	v, ok := tlsVersions[s]
	if !ok {
		d.addf(n.pos, path, "%.40q is no version of TLS that is taken; allowed are %q, for the HTTP API alone, and %q", s,
			slices.Sorted(maps.Keys(tlsVersions))[0], slices.Sorted(maps.Keys(tlsVersions))[1])
		return
	}
	d.to.TLS.MinHTTPS = v
}

func (d *decoder) tls() {
	t := &d.to.TLS
	if !t.Enabled() {
		return
	}
	for _, f := range []struct {
		key, file, what string
		wanted          bool
	}{
		{"cert_file", t.CertFile, "the agent's certificate", true},
		{"key_file", t.KeyFile, "the key of the agent's certificate", true},
		{"ca_file", t.CAFile, "the authority that signs the certificates of others", t.RPC || t.VerifyHTTPSClient},
	} {
		if f.wanted && f.file == "" {
			d.addf(d.said["tls"], "tls."+f.key, "is missing: %s", f.what)
		}
	}
	if t.MinHTTPS < tls.VersionTLS13 && t.RPC {
		d.warnf("tls.tls_min_version: TLS 1.2 is taken by the HTTP API alone; between agents it is 1.3")
	}
	if t.RPC && !t.VerifyServerHostname {
		d.warnf("tls.verify_server_hostname is false: whoever has a certificate of the authority that names no role can pass for a server")
	}
	if t.RPC && t.UpgradeMode {
		d.warnf("tls.rpc_upgrade_mode: connections without TLS are taken; leave it out once all agents have TLS")
	}
}

// httpLacks says what does not protect the HTTP API, or nothing.
func (t *TLS) httpLacks() string {
	switch {
	case !t.HTTP:
		return "no access control, no TLS"
	case !t.VerifyHTTPSClient:
		return "no access control, and tls.verify_https_client is off"
	}
	return ""
}
