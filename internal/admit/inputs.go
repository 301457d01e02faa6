package admit

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/internal/pattern"
	"berth/internal/templating"
)

// inputs completes what is fetched and rendered for a task.
func (d *decoder) inputs(t *berth.Task) {
	for i := range t.Artifacts {
		a := &t.Artifacts[i]
		a.GetterMode = strings.ToLower(cmp.Or(a.GetterMode, "any"))
		orDefault(&a.RelativeDest, "local/")
		a.GetterOptions, a.GetterHeaders = normalMap(a.GetterOptions), normalMap(a.GetterHeaders)
	}
	for i := range t.Templates {
		x := &t.Templates[i]
		x.ChangeMode = strings.ToLower(cmp.Or(x.ChangeMode, berth.ChangeRestart))
		x.ChangeSignal = strings.ToUpper(x.ChangeSignal)
		orDefault(&x.Perms, "0644")
		orDefault(&x.LeftDelim, "{{")
		orDefault(&x.RightDelim, "}}")
	}
}

// Limits of what a task asks for.
const (
	maxArtifacts = 64
	maxTemplates = 64
	maxSecrets   = 32
	maxTemplate  = 1 << 20 // bytes
	maxSource    = 4096    // bytes
)

// place checks where something of a task goes to. What names stand for is only
// known on the node, which checks again.
func (c *checker) place(at, p string) {
	switch {
	case strings.ContainsRune(p, 0) || len(p) > maxSource:
		c.addf(at, "must be at most %d bytes without a zero byte", maxSource)
	case strings.Contains(p, "${"):
	case strings.HasPrefix(path.Clean("task/"+p)+"/", "task/"), strings.HasPrefix(path.Clean("task/"+p)+"/", "alloc/"):
	case path.IsAbs(p) && slices.ContainsFunc([]string{"/local", "/secrets", "/alloc"}, func(dir string) bool { return strings.HasPrefix(path.Clean(p)+"/", dir+"/") }):
	default:
		c.addf(at, "%q leads out of the task's directory", berth.Clip(p, 64))
	}
}

// addressOfObject reports whether a source of the kind s3 can have the address of an
// object: one that is interpolated is known later.
func addressOfObject(source string) bool {
	address := strings.TrimPrefix(source, "s3::")
	return strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "${")
}

// artifacts checks what is fetched for a task.
func (c *checker) artifacts(at string, t *berth.Task) {
	if c.tooMany(at, maxArtifacts, len(t.Artifacts)) {
		return
	}
	for i := range t.Artifacts {
		a, here := &t.Artifacts[i], fmt.Sprintf("%s[%d]", at, i)
		source, kind := a.GetterSource, a.GetterSource
		if before, _, ok := strings.Cut(source, "::"); ok {
			kind = before
		} else if before, _, ok := strings.Cut(source, "://"); ok {
			kind = before
		}
		switch {
		case source == "":
			c.addf(here+".source", "is required")
		case len(source) > maxSource || strings.ContainsFunc(source, func(r rune) bool { return r < ' ' || r == 0x7f }):
			c.addf(here+".source", "must be at most %d bytes without control characters", maxSource)
		case slices.Contains([]string{"gcs", "hg", "smb"}, kind):
			c.addf(here+".source", "sources of the kind %s are not supported: use the https URL of the object, or git", kind)
		case kind == "s3" && !addressOfObject(source):
			shown, _, _ := strings.Cut(source, "?") // the parameters can be keys
			c.addf(here+".source", "must have the address of an object after s3::, such as https://host/bucket/key, got %q", berth.Clip(shown, 128))
		case kind == "file" || strings.HasPrefix(source, "/"):
			c.addf(here+".source", "files of the host are not artifacts: use a host volume")
		}
		if !slices.Contains([]string{"any", "file", "dir"}, a.GetterMode) {
			c.addf(here+".mode", "must be any, file or dir, got %q", berth.Clip(a.GetterMode, 64))
		}
		c.place(here+".destination", a.RelativeDest)
		c.checksum(here+".options.checksum", a.GetterOptions["checksum"])
		for _, k := range slices.Sorted(maps.Keys(a.GetterHeaders)) {
			if k == "" || strings.ContainsAny(k+a.GetterHeaders[k], "\r\n\x00") || strings.ContainsAny(k, ": ") {
				c.addf(here+".headers", "%q is not a valid header, or its value is not valid", berth.Clip(k, 64))
			}
		}
	}
}

// digits are how many hexadecimal digits the kinds of checksums have.
var digits = map[string]int{"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}

// checksum checks a checksum of an artifact, such as sha256:2c26….
func (c *checker) checksum(at, sum string) {
	kind, text, ok := strings.Cut(sum, ":")
	if sum == "" || strings.Contains(sum, "${") || kind == "file" && ok {
		return
	}
	if !ok {
		text = sum
	}
	hex := strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
	n, known := digits[kind]
	switch {
	case ok && !known:
		c.addf(at, "unknown kind of checksum %q: want md5, sha1, sha256, sha512 or file", berth.Clip(kind, 64))
	case !hex, ok && len(text) != n, !ok && !slices.Contains(slices.Collect(maps.Values(digits)), len(text)):
		c.addf(at, "must have the hexadecimal digits of a checksum, such as sha256 with 64 of them, got %d characters", len(text))
	}
}

// templates checks what is rendered for a task.
func (c *checker) templates(at string, t *berth.Task) {
	if c.tooMany(at, maxTemplates, len(t.Templates)) {
		return
	}
	seen := map[string]bool{}
	for i := range t.Templates {
		x, here := &t.Templates[i], fmt.Sprintf("%s[%d]", at, i)
		switch {
		case x.SourcePath == "" && x.EmbeddedTmpl == "":
			c.addf(here, "must have data or source")
		case x.SourcePath != "" && x.EmbeddedTmpl != "":
			c.addf(here, "must have data or source, not both")
		case len(x.EmbeddedTmpl) > maxTemplate:
			c.addf(here+".data", "must be at most %d bytes, got %d", maxTemplate, len(x.EmbeddedTmpl))
		case x.EmbeddedTmpl != "":
			if err := templating.Check(x.EmbeddedTmpl, x.LeftDelim, x.RightDelim); err != nil {
				c.addf(here+".data", "%s", berth.Clip(err.Error(), 512))
			}
		default:
			c.place(here+".source", x.SourcePath)
		}
		if x.DestPath == "" {
			c.addf(here+".destination", "is required")
		} else {
			c.place(here+".destination", x.DestPath)
			if seen[path.Clean(x.DestPath)] {
				c.addf(here+".destination", "%q is the destination of two templates", berth.Clip(x.DestPath, 64))
			}
			seen[path.Clean(x.DestPath)] = true
		}
		c.templateChange(here, x)
		if n, err := strconv.ParseUint(x.Perms, 8, 32); err != nil || n > 0o777 {
			c.addf(here+".perms", "must be octal digits from 0000 to 0777, got %q", berth.Clip(x.Perms, 64))
		}
		c.duration(here+".splay", x.Splay, 0)
		if w := x.Wait; w != nil {
			c.duration(here+".wait.min", w.Min, 0)
			c.duration(here+".wait.max", w.Max, 0)
			if w.Max > 0 && w.Max < w.Min {
				c.addf(here+".wait.max", "must be at least min, %s, got %s", w.Min, w.Max)
			}
		}
		c.unsupported(x.ChangeScript != nil && x.ChangeScript.RunOnFirstRender, here+".change_script.run_on_first_render", "")
		c.unsupported(x.VaultGrace != 0, here+".vault_grace", "")
	}
}

// templateChange checks what a task is told when a template changes.
func (c *checker) templateChange(here string, x *berth.Template) {
	switch x.ChangeMode {
	case berth.ChangeNoop, berth.ChangeRestart:
	case berth.ChangeSignal:
		switch {
		case x.Envvars:
			c.addf(here+".env", "cannot be with change_mode signal: a task that runs does not see a change of its environment")
		case !slices.Contains(signals, x.ChangeSignal):
			c.addf(here+".change_signal", "unknown signal %q: want %s", berth.Clip(x.ChangeSignal, 64), orList(signals))
		}
	case berth.ChangeRun:
		s := x.ChangeScript
		if s == nil || s.Command == "" {
			c.addf(here+".change_script", "must have a command with change_mode script")
			return
		}
		c.duration(here+".change_script.timeout", s.Timeout, 0)
	default:
		c.addf(here+".change_mode", "must be noop, signal, restart or script, got %q", berth.Clip(x.ChangeMode, 64))
	}
	if x.ChangeSignal != "" && x.ChangeMode != berth.ChangeSignal {
		c.addf(here+".change_signal", "has no effect unless change_mode is signal")
	}
}

// secretForm is what the name of a secret may be: it is part of ${secret.…}.
var secretForm = pattern.New(`^[a-zA-Z0-9_-]{1,128}$`)

// secrets checks the secrets of a task.
func (c *checker) secrets(at string, t *berth.Task) {
	if c.tooMany(at, maxSecrets, len(t.Secrets)) {
		return
	}
	seen := map[string]bool{}
	for i := range t.Secrets {
		s := &t.Secrets[i]
		here := fmt.Sprintf("%s[%s]", at, berth.Clip(s.Name, 64))
		switch {
		case !secretForm.MatchString(s.Name):
			c.addf(here+".name", "must have 1 to 128 letters, digits, dashes and underscores, got %q", berth.Clip(s.Name, 64))
		case seen[s.Name]:
			c.addf(here+".name", "is defined twice")
		}
		seen[s.Name] = true
		if c.secretProvider(here, s) {
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(s.Config)) {
			if space, ok := s.Config[k].(string); k != "namespace" || !ok || space == "" {
				c.addf(here+".config."+berth.Clip(k, 64), "is not supported: the provider nomad has only namespace, the name of one")
			}
		}
		c.strings(here+".env", s.Env)
	}
}

// providerForm is what a provider of secrets may be called: it is a file of the node.
var providerForm = pattern.New(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$`)

// secretProvider checks where a secret comes from, and all of one that comes from a
// program of the node. It reports whether it does.
func (c *checker) secretProvider(here string, s *berth.Secret) bool {
	switch {
	case s.Provider == "vault":
		c.addf(here+".provider", "provider \"vault\" is not supported: must be nomad, or the name of a program in client.common_plugin_dir of the nodes")
	case !providerForm.MatchString(s.Provider):
		c.addf(here+".provider", "must be nomad, or the name of a program with up to 63 letters, digits and the characters _.-, got %q", berth.Clip(s.Provider, 64))
	case s.Path == "" || len(s.Path) > maxSource || strings.ContainsRune(s.Path, 0):
		c.addf(here+".path", "must be 1 to %d bytes without a zero byte, got %d", maxSource, len(s.Path))
	}
	if s.Provider == "nomad" {
		return false
	}
	if len(s.Config) > 0 {
		c.addf(here+".config", "is only for the provider nomad: give env to others")
	}
	c.strings(here+".env", s.Env)
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if strings.ContainsAny(k, "=\x00") || strings.ContainsRune(s.Env[k], 0) || steers(k) {
			c.addf(here+".env", "%q cannot be set for a provider: it would change which program runs, or how", berth.Clip(k, 64))
		}
	}
	return true
}

// steers reports whether a variable of the environment changes what a program is,
// rather than what it is asked for.
func steers(name string) bool {
	name = strings.ToUpper(name)
	return name == "" || slices.Contains([]string{"PATH", "HOME", "TMPDIR", "ENV", "BASH_ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "GLIBC_TUNABLES", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"}, name) ||
		slices.ContainsFunc([]string{"LD_", "CPI_", "BASH_FUNC_", "PYTHON", "PERL", "RUBY", "NODE_"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// tooMany notes and reports that there are more blocks of a kind than a task may
// have.
func (c *checker) tooMany(at string, most, n int) bool {
	if n > most {
		c.addf(at, "must be at most %d, got %d", most, n)
	}
	return n > most
}
