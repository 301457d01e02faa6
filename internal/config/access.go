package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"berth/internal/decode"
)

// Audit configures the audit log of the HTTP API.
type Audit struct {
	Enabled bool
	Path    string // absolute
	// Enforced refuses requests whose entry cannot be written; otherwise they are
	// answered all the same.
	Enforced       bool
	RotateBytes    int           // the size at which a file is put aside; 0 is none
	RotateDuration time.Duration // the age at which it is
	RotateMaxFiles int           // how many of those are kept; 0 is all
	Mode           uint32        // permissions of the files
	Filters        []AuditFilter
}

// AuditFilter excludes entries from the audit log: those that match each of its
// lists. An empty list matches all; "*" stands for any text.
type AuditFilter struct {
	Name       string
	Endpoints  []string // paths, such as /v1/metrics
	Stages     []string // OperationReceived, OperationComplete
	Operations []string // methods of HTTP
}

// The stages of audit entries.
var auditStages = []string{"OperationReceived", "OperationComplete", "*"}

// audit reads the audit block. Names of sinks and filters are labels.
func audit(d *decoder, path string, n *node) {
	var sinks, filters int
	a := &d.to.Audit
	a.Enforced, a.RotateDuration, a.Mode = true, 24*time.Hour, 0o600
	labelled := func(what string, f func(at string, name string, n *node)) setting {
		return func(d *decoder, path string, n *node) {
			o, ok := n.value.(object)
			if !ok {
				d.addf(n.pos, path, `must be a block with a name: %s "NAME" { }, got %s`, what, kind(n.value))
				return
			}
			for _, name := range o.keys() {
				at := decode.Join(path, name)
				d.setAt[at] = o[name].pos
				f(at, name, o[name])
			}
		}
	}
	d.block(path, n, table{
		"enabled": flagInto(&a.Enabled),
		"sink": labelled("sink", func(at, _ string, n *node) {
			if sinks++; sinks > 1 {
				d.addf(n.pos, at, "only one sink is supported")
				return
			}
			d.auditSink(at, n)
		}),
		"filter": labelled("filter", func(at, name string, n *node) {
			filters++
			f := AuditFilter{Name: name}
			kind := "HTTPEvent"
			d.block(at, n, table{
				"type": textInto(&kind), "endpoints": textsInto(&f.Endpoints), "stages": textsInto(&f.Stages), "operations": textsInto(&f.Operations),
			})
			if kind != "HTTPEvent" {
				d.fail(at+".type", "must be HTTPEvent, got %.40q", kind)
			}
			for _, s := range f.Stages {
				if !slices.Contains(auditStages, s) {
					d.fail(at+".stages", "unknown stage %.40q: want OperationReceived, OperationComplete or *", s)
				}
			}
			a.Filters = append(a.Filters, f)
		}),
	})
}

// auditSink reads a sink block.
func (d *decoder) auditSink(at string, n *node) {
	a := &d.to.Audit
	kind, format, guarantee, mode, age := "file", "json", "enforced", "", ""
	d.block(at, n, table{
		"type": textInto(&kind), "format": textInto(&format), "delivery_guarantee": textInto(&guarantee), "path": textInto(&a.Path),
		"rotate_bytes": func(d *decoder, path string, n *node) {
			whole(func(c *Config) *int { return &c.Audit.RotateBytes })(d, path, n)
		},
		"rotate_max_files": func(d *decoder, path string, n *node) {
			whole(func(c *Config) *int { return &c.Audit.RotateMaxFiles })(d, path, n)
		},
		"rotate_duration": textInto(&age), "mode": textInto(&mode),
	})
	if kind != "file" {
		d.fail(at+".type", "must be file, got %.40q", kind)
	}
	if format != "json" {
		d.fail(at+".format", "must be json, got %.40q", format)
	}
	switch guarantee {
	case "enforced", "best-effort":
		a.Enforced = guarantee == "enforced"
	default:
		d.fail(at+".delivery_guarantee", "must be enforced or best-effort, got %.40q", guarantee)
	}
	if age != "" {
		v, err := time.ParseDuration(age)
		if err != nil || v < time.Minute {
			d.fail(at+".rotate_duration", "must be a duration of at least a minute, such as 24h, got %.40q", age)
		}
		a.RotateDuration = v
	}
	if mode != "" {
		v, err := strconv.ParseUint(mode, 8, 32)
		if err != nil || v > 0o777 || v&0o600 != 0o600 {
			d.fail(at+".mode", "must be permissions such as 0600 that let the owner read and write, got %.40q", mode)
		}
		a.Mode = uint32(v)
	}
	d.between(at+".rotate_bytes", a.RotateBytes, 0, 1<<40)
	d.between(at+".rotate_max_files", a.RotateMaxFiles, 0, 1<<20)
}

// access checks the settings of access control that belong to servers.
func (d *decoder) access() {
	c := d.to
	d.between("limits.token_writes", c.Limits.TokenWrites, 0, NoLimit)
	d.between("limits.namespace_writes", c.Limits.NamespaceWrites, 0, NoLimit)
	if c.Audit.Path != "" && !filepath.IsAbs(c.Audit.Path) {
		d.fail("audit.sink", "path: %.200q is not an absolute path", c.Audit.Path)
	}
	if len(c.Client.IntroToken) > 8<<10 {
		d.fail("client.intro_token", "is too long: %d bytes, at most %d are allowed", len(c.Client.IntroToken), 8<<10)
	}
	if !c.Server.Enabled {
		return
	}
	s := &c.Server
	switch i := &s.Introduction; i.Enforcement {
	case "":
		i.Enforcement = IntroductionWarn
	case IntroductionNone, IntroductionWarn, IntroductionStrict:
	default:
		d.fail("server.client_introduction.enforcement", "must be none, warn or strict, got %.40q", i.Enforcement)
	}
	d.period("server.client_introduction.default_identity_ttl", s.Introduction.DefaultTTL, time.Minute, s.Introduction.MaxTTL)
	d.period("server.client_introduction.max_identity_ttl", s.Introduction.MaxTTL, time.Minute, 24*time.Hour)
	const long = 100 * 365 * 24 * time.Hour
	for key, v := range map[string]time.Duration{
		"acl_token_gc_threshold": s.TokenGCThreshold, "root_key_gc_threshold": s.RootKeyGCThreshold,
		"root_key_gc_interval": s.RootKeyGCInterval, "root_key_rotation_threshold": s.RootKeyRotation,
	} {
		d.period("server."+key, v, 0, long)
	}
}

// textsInto reads a list of strings into a variable.
func textsInto(to *[]string) setting { return texts(func(*Config) *[]string { return to }) }

// Introduction configures whether new nodes must be introduced.
type Introduction struct {
	Enforcement string        // IntroductionNone, IntroductionWarn or IntroductionStrict
	DefaultTTL  time.Duration // of introduction tokens
	MaxTTL      time.Duration
}

// What servers do with a new node that shows no valid introduction token.
const (
	IntroductionNone   = "none"
	IntroductionWarn   = "warn" // they take it, and log it
	IntroductionStrict = "strict"
)
