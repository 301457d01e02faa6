package config

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/go-units"

	"berth"
)

// Inputs configures what tasks of the node find when they start.
type Inputs struct {
	HTTPTimeout, GitTimeout, S3Timeout time.Duration // of an artifact
	MaxBytes, MaxUnpacked              int64         // of an artifact, as it comes and unpacked
	MaxFiles                           int           // in an archive
	Open                               bool          // artifacts are fetched without Landlock
	Paths                              []string      // that the fetcher may read as well
	Env                                []string      // variables of the agent's environment that the fetcher gets

	DenyFunctions []string          // that templates may not use
	Wait          *berth.WaitConfig // of templates that have no wait block; nil: there is none
	WaitBounds    *berth.WaitConfig // of the wait blocks of templates; nil: there are none
}

// defaultInputs are as Nomad documents them.
func defaultInputs() Inputs {
	return Inputs{HTTPTimeout: 30 * time.Minute, GitTimeout: 30 * time.Minute, S3Timeout: 30 * time.Minute, MaxBytes: 100_000_000_000, MaxUnpacked: 100_000_000_000, MaxFiles: 4096}
}

const (
	otherSources = "sources of this kind are not supported"
	alwaysFresh  = "templates see the newest values that servers have"
	triesForever = "the agent tries again for as long as the task wants to know"
)

// artifactKeys configure how artifacts are fetched.
var artifactKeys = table{
	"http_read_timeout":                span(func(c *Config) *time.Duration { return &c.Client.Inputs.HTTPTimeout }),
	"git_timeout":                      span(func(c *Config) *time.Duration { return &c.Client.Inputs.GitTimeout }),
	"gcs_timeout":                      spanWithout(otherSources),
	"hg_timeout":                       spanWithout(otherSources),
	"s3_timeout":                       span(func(c *Config) *time.Duration { return &c.Client.Inputs.S3Timeout }),
	"http_max_size":                    size(func(c *Config) *int64 { return &c.Client.Inputs.MaxBytes }),
	"decompression_limit_size":         size(func(c *Config) *int64 { return &c.Client.Inputs.MaxUnpacked }),
	"decompression_limit_file_count":   whole(func(c *Config) *int { return &c.Client.Inputs.MaxFiles }),
	"disable_filesystem_isolation":     flag(func(c *Config) *bool { return &c.Client.Inputs.Open }),
	"filesystem_isolation_extra_paths": texts(func(c *Config) *[]string { return &c.Client.Inputs.Paths }),
	"set_environment_variables": func(d *decoder, path string, n *node) {
		if names, ok := d.line(path, n); ok {
			d.to.Client.Inputs.Env = strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' })
		}
	},
	"disable_artifact_inspection": because("what is in an artifact is always looked at", only(false)),
}

// templateKeys configure how templates are rendered.
var templateKeys = table{
	"function_denylist":    texts(func(c *Config) *[]string { return &c.Client.Inputs.DenyFunctions }),
	"disable_file_sandbox": because("templates never see files outside of the task's directory", only(false)),
	"wait":                 waitInto(func(c *Config) **berth.WaitConfig { return &c.Client.Inputs.Wait }),
	"wait_bounds":          waitInto(func(c *Config) **berth.WaitConfig { return &c.Client.Inputs.WaitBounds }),
	"max_stale":            spanWithout(alwaysFresh),
	"block_query_wait":     spanWithout("a server says when a value has changed"),
	"nomad_retry":          retry,
	"consul_retry":         because("templates cannot use Consul", empty("consul_retry")),
	"vault_retry":          because("templates cannot use Vault", empty("vault_retry")),
}

// retry accepts how often servers are asked again.
var retry = block(table{
	"attempts":    noEffect(triesForever),
	"backoff":     spanWithout(triesForever),
	"max_backoff": spanWithout(triesForever),
	"enabled":     only(true),
})

// waitInto reads a wait block.
func waitInto(field func(*Config) **berth.WaitConfig) setting {
	return func(d *decoder, path string, n *node) {
		w := &berth.WaitConfig{}
		d.block(path, n, table{
			"min":     span(func(*Config) *time.Duration { return &w.Min }),
			"max":     span(func(*Config) *time.Duration { return &w.Max }),
			"enabled": only(true),
		})
		if w.Min < 0 || w.Max != 0 && w.Max < w.Min {
			d.addf(n.pos, path, "min must be at least 0, and max at least min, got %v and %v", w.Min, w.Max)
			return
		}
		*field(d.to) = w
	}
}

// size reads a number of bytes, as "100GB" or "512MiB".
func size(field func(*Config) *int64) setting {
	return func(d *decoder, path string, n *node) {
		text, ok := d.line(path, n)
		if !ok {
			return
		}
		read := units.FromHumanSize
		if strings.Contains(strings.ToLower(text), "ib") {
			read = units.RAMInBytes
		}
		b, err := read(text)
		if err != nil || b <= 0 {
			d.addf(n.pos, path, "must be a size of at least 1 byte such as 100GB or 512MiB, got %.40q", text)
			return
		}
		*field(d.to) = b
	}
}

// inputs checks what the blocks artifact and template say.
func (d *decoder) inputs() {
	in := &d.to.Client.Inputs
	for key, t := range map[string]time.Duration{"http_read_timeout": in.HTTPTimeout, "git_timeout": in.GitTimeout, "s3_timeout": in.S3Timeout} {
		if t <= 0 {
			d.fail("client.artifact."+key, "must be longer than 0s, got %v", t)
		}
	}
	if in.MaxFiles < 1 {
		d.fail("client.artifact.decompression_limit_file_count", "must be at least 1, got %d", in.MaxFiles)
	}
	for i, p := range in.Paths {
		kind, rest, _ := strings.Cut(p, ":")
		mode, file, ok := strings.Cut(rest, ":")
		if !ok || kind != "f" && kind != "d" || mode != "r" && mode != "rx" || !filepath.IsAbs(file) {
			d.fail("client.artifact.filesystem_isolation_extra_paths", "must be of the form f:r:/file or d:r:/directory, also with rx, got %.200q", p)
			continue
		}
		in.Paths[i] = file
	}
	for _, name := range in.DenyFunctions {
		if name == "" || strings.ContainsAny(name, " \t\n") {
			d.fail("client.template.function_denylist", "%.64q is not the name of a function", name)
		}
	}
}
