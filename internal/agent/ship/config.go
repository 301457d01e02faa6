package ship

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/internal/glob"
)

// The types of sinks.
const (
	File   = "file"
	HTTP   = "http"
	Loki   = "loki"
	OTLP   = "otlp"
	Syslog = "syslog"
)

// Types are the types of sinks.
var Types = []string{File, HTTP, Loki, OTLP, Syslog}

// Config describes a sink.
type Config struct {
	Type string
	// Address is a path for a file; a URL for http, loki and otlp, whose path is
	// the documented one if it has none; tcp://host:port, udp://host:port or
	// unix:///path for syslog.
	Address    string
	Labels     map[string]string // added to all lines
	Headers    map[string]string // of HTTP requests
	CAFile     string            // PEM; "" is the machine's authorities
	Namespaces []string          // patterns; nil is all
	Jobs       []string          // patterns of job IDs; nil is all
	Optional   bool              // only for jobs that name it
	MaxSizeMB  int               // of a file
	MaxFiles   int               // that are kept besides
}

// Check returns an error if the configuration is not valid.
func (c *Config) Check() error {
	if !slices.Contains(Types, c.Type) {
		return berth.Errorf(berth.Invalid, "type: unknown sink %.40q: want one of %s", c.Type, strings.Join(Types, ", "))
	}
	if c.Type == File {
		if !filepath.IsAbs(c.Address) {
			return berth.Errorf(berth.Invalid, "address: %.100q must be the absolute path of a file", c.Address)
		}
		return nil
	}
	u, err := url.Parse(c.Address)
	want, example := []string{"http", "https"}, "http://127.0.0.1:3100"
	if c.Type == Syslog {
		want, example = []string{"tcp", "udp", "unix"}, "udp://127.0.0.1:514"
	}
	switch {
	case err != nil || !slices.Contains(want, u.Scheme):
		return berth.Errorf(berth.Invalid, "address: %.100q must be a URL with one of %s, such as %s", c.Address, strings.Join(want, ", "), example)
	case u.Scheme == "unix" && !filepath.IsAbs(u.Path), u.Scheme != "unix" && u.Host == "", c.Type == Syslog && u.Scheme != "unix" && u.Port() == "":
		return berth.Errorf(berth.Invalid, "address: %.100q must name a host and port, or a path, such as %s", c.Address, example)
	}
	return nil
}

// Wants reports whether a job's lines go to the sink that has a name. names are
// those that the job asks for; nil if it says nothing.
func (c *Config) Wants(name, namespace, job string, names []string) bool {
	match := func(patterns []string, s string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(p, s) })
	}
	if !match(c.Namespaces, namespace) || !match(c.Jobs, job) {
		return false
	}
	if names != nil {
		return slices.Contains(names, name)
	}
	return !c.Optional
}

// Open returns the sink. It opens no connection and no file yet.
func (c *Config) Open(host string) (Sink, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	switch c.Type {
	case File:
		return &fileSink{path: c.Address, extra: c.Labels, size: int64(c.MaxSizeMB) << 20, keep: c.MaxFiles}, nil
	case Syslog:
		u, err := url.Parse(c.Address)
		if err != nil {
			return nil, err
		}
		s := &syslogSink{network: u.Scheme, address: u.Host, extra: c.Labels, host: host}
		if u.Scheme == "unix" {
			s.network, s.address = "unixgram", u.Path
		}
		return s, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "ca_file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, berth.Errorf(berth.Invalid, "ca_file: %s holds no certificate in PEM", c.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p := &poster{url: c.Address, headers: c.Headers, extra: c.Labels, client: &http.Client{Transport: transport}}
	path := ""
	switch c.Type {
	case HTTP:
		p.body = objects
	case Loki:
		p.body, path = loki, "/loki/api/v1/push"
	case OTLP:
		p.body, path = otlp, "/v1/logs"
	}
	if u, err := url.Parse(c.Address); err == nil && strings.Trim(u.Path, "/") == "" {
		u.Path = path
		p.url = u.String()
	}
	return p, nil
}
