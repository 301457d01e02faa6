package config

import (
	"crypto/tls"
	"maps"
	"slices"
)

// The keys of Nomad's tls block. Berth is stricter in two ways. Between agents
// only TLS 1.3 is allowed. And certificates must have a role name unless
// verify_server_hostname is false. In Nomad its default is false, and then any
// certificate of the CA, such as that of any agent, can pass for a server.

// tlsKeys are the supported keys of the tls block.
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
	"tls_cipher_suites":               noEffect("TLS 1.3 cipher suites cannot be chosen, and for 1.2 only the safe ones are available"),
	"tls_prefer_server_cipher_suites": anyBool,
}

// tlsVersions are the versions that tls_min_version can name. Older ones are
// not secure.
var tlsVersions = map[string]uint16{"tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13}

// tlsVersion returns the name of a TLS version in the file, "" if it has none.
func tlsVersion(v uint16) string {
	for name, n := range tlsVersions {
		if n == v {
			return name
		}
	}
	return ""
}

// tlsMinVersion reads the lowest TLS version. 1.2 applies only to the HTTP API;
// agents do not need it between each other.
func tlsMinVersion(d *decoder, path string, n *node) {
	s, ok := d.line(path, n)
	if !ok || s == "" {
		return
	}
	v, ok := tlsVersions[s]
	if !ok {
		d.addf(n.pos, path, "unsupported TLS version %.40q: want %q (HTTP API only) or %q", s,
			slices.Sorted(maps.Keys(tlsVersions))[0], slices.Sorted(maps.Keys(tlsVersions))[1])
		return
	}
	d.to.TLS.MinHTTPS = v
}

// tls checks that the files TLS needs are named, and warns of settings that
// make it weaker. The files are read when the agent starts.
func (d *decoder) tls() {
	t := &d.to.TLS
	if !t.Enabled() {
		return
	}
	for _, f := range []struct {
		key, file, what string
		required        bool
	}{
		{"cert_file", t.CertFile, "the agent's certificate", true},
		{"key_file", t.KeyFile, "the key of the agent's certificate", true},
		{"ca_file", t.CAFile, "the CA that signs the certificates of other agents", t.RPC || t.VerifyHTTPSClient},
	} {
		if f.required && f.file == "" {
			d.addf(d.setAt["tls"], "tls."+f.key, "is missing: want the file with %s", f.what)
		}
	}
	// These settings are valid but weaker than their names suggest.
	if t.MinHTTPS < tls.VersionTLS13 && t.RPC {
		d.warnf("tls.tls_min_version: TLS 1.2 applies only to the HTTP API; between agents it is 1.3")
	}
	if t.RPC && !t.VerifyServerHostname {
		d.warnf("tls.verify_server_hostname is false: anyone who has a certificate of the CA without a role name can pass for a server")
	}
	if t.RPC && t.UpgradeMode {
		d.warnf("tls.rpc_upgrade_mode: connections without TLS are accepted; remove it once all agents use TLS")
	}
}

// httpLacks describes what does not protect the HTTP API; "" if nothing is
// missing.
func (t *TLS) httpLacks() string {
	switch {
	case !t.HTTP:
		return "no access control, no TLS"
	case !t.VerifyHTTPSClient:
		return "no access control, and tls.verify_https_client is off"
	}
	return ""
}
