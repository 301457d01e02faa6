package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/decode"

	"berth"

	"github.com/cockroachdb/datadriven"
)

// TestStories plays testdata: above the dashes are files, each after a line
// "== name" (one without a line is a.hcl), and flags, in lines such as
// "-bind bind_addr=0.0.0.0"; -dev is a line of its own. Below are the fields
// that are not as they are by default, and the warnings, or the problems.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "story" {
				d.Fatalf(t, "unknown directive %q: want story", d.Cmd)
			}
			dir := t.TempDir()
			paths, flags := stage(t, dir, d.Input+"\n")
			c, err := Load(paths, flags)
			if c != nil && c.TempData {
				t.Cleanup(func() { os.RemoveAll(c.DataDir) })
			}
			var out string
			if err != nil {
				if berth.KindOf(err) != berth.Invalid {
					t.Errorf("the error is of kind %q", berth.KindOf(err))
				}
				out = err.Error()
			} else {
				out = show(c)
				if _, err := json.Marshal(c.Public()); err != nil {
					t.Error(err)
				}
			}
			return strings.ReplaceAll(out, dir+"/", "")
		})
	})
}

// stage writes the files of a story.
func stage(t *testing.T, dir, input string) (paths []string, flags Overrides) {
	name, text := "a.hcl", map[string]string{}
	var order []string
	for line := range strings.Lines(input) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "==":
			name = rest
		case word == "-dev":
			flags.Dev = true
			continue
		case strings.HasPrefix(line, "-"):
			key, value, _ := strings.Cut(rest, "=")
			flags.Flags = append(flags.Flags, Flag{word, key, value})
			continue
		}
		if text[name] == "" {
			order = append(order, name)
		}
		if word != "==" {
			text[name] += line
		} else {
			text[name] += " "
		}
	}
	for _, name := range order {
		if text[name] == "" {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.TrimPrefix(text[name], " ")), 0o644); err != nil {
			t.Fatal(err)
		}
		if folder, _, ok := strings.Cut(name, "/"); ok { // a folder is named once
			file = filepath.Join(dir, folder)
		}
		if !slices.Contains(paths, file) {
			paths = append(paths, file)
		}
	}
	if !strings.Contains(input, "name =") {
		flags.Flags = append(flags.Flags, Flag{"-node", "name", "n1"})
	}
	return paths, flags
}

// show prints what differs from the defaults.
func show(c *Config) string {
	base := defaults(c.Dev)
	base.Name, base.Files = "n1", c.Files
	base.HTTP.Addr, base.RPC.Addr = "127.0.0.1", "127.0.0.1"
	base.HTTP.Advertise, base.RPC.Advertise = "127.0.0.1:4646", "127.0.0.1:4647"
	base.Serf.Addr, base.Serf.Advertise = "127.0.0.1", "127.0.0.1:4648"
	if c.Dev {
		base.Serf.Port, base.Serf.Advertise = 0, ""
	}
	base.DataDir = "/data"
	if c.TempData {
		base.DataDir = c.DataDir
	}
	base.dirs()
	var out strings.Builder
	diff(&out, "", reflect.ValueOf(*base), reflect.ValueOf(*c))
	for _, w := range c.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	if out.Len() == 0 {
		return "as by default"
	}
	return out.String()
}

func diff(out *strings.Builder, path string, a, b reflect.Value) {
	if path == "Warnings" || path == "TempData" || reflect.DeepEqual(a.Interface(), b.Interface()) {
		return
	}
	if a.Kind() != reflect.Struct {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%s: %v", path, b), " "))
		return
	}
	for i := range a.NumField() {
		diff(out, decode.Join(path, a.Type().Field(i).Name), a.Field(i), b.Field(i))
	}
}

// Every key that refuses does so by its name and place, and never shows its
// value: it may be a secret.
func TestUnsupportedKeysRefuseByName(t *testing.T) {
	const secret = "hunter2"
	for path, t2 := range map[string]table{"": unsupported, "telemetry": unsupportedTelemetry, "server": unsupportedServer, "ui": unsupportedUI} {
		for key := range t2 {
			at := decode.Join(path, key)
			t.Run(at, func(t *testing.T) {
				refused := false
				for _, v := range []string{`"` + secret + `"`, "true", "false", "12345", `{ "x" = "` + secret + `" }`, `{ enabled = true }`, `{ http = true }`} {
					text := key + " = " + v
					if path != "" {
						text = path + " {\n" + text + "\n}"
					}
					_, err := load(t, "data_dir = \"/d\"\nname = \"n\"\n"+text)
					if err == nil {
						continue
					}
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s: the value is shown: %v", v, err)
					}
					if strings.Contains(err.Error(), at) && strings.Contains(err.Error(), "a.hcl:") {
						refused = refused || strings.Contains(err.Error(), "not supported")
					}
				}
				if _, harmless := harmless[at]; refused == harmless {
					t.Errorf("refused: %v", refused)
				}
			})
		}
	}
}

// harmless are keys among the unsupported that pass with any value, or whose own
// keys the test does not know.
var harmless = map[string]bool{

	"syslog_facility": true, "log_rotate_bytes": true, "log_rotate_duration": true, "log_rotate_max_files": true,
}

func load(t *testing.T, text string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.hcl")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load([]string{file}, Overrides{Dev: true})
}

func TestDevelopmentNeedsNoFile(t *testing.T) {
	c, err := Load(nil, Overrides{Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(c.DataDir)
	host, _ := os.Hostname()
	if !c.TempData || !c.Server.Enabled || !c.Client.Enabled || !c.Plugins.RawExec || !c.Plugins.MockDriver || c.Name != host {
		t.Errorf("%+v", c)
	}
	if !c.HTTP.Loopback() || !c.RPC.Loopback() || len(c.Warnings) > 0 {
		t.Errorf("it is open: %+v, %v", c.HTTP, c.Warnings)
	}
	for _, dir := range []string{c.Server.DataDir, c.Client.StateDir, c.Client.AllocDir} {
		if filepath.Dir(dir) != c.DataDir {
			t.Errorf("%s is not in %s", dir, c.DataDir)
		}
	}
	if info, err := os.Stat(c.DataDir); err != nil || info.Mode().Perm() != 0o711 { // tasks of other users pass through it
		t.Errorf("the data directory is %v, %v", info, err)
	}
}

// A directory that is a file is refused by the name of its key or flag.
func TestDirectoriesAreDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(nil, Overrides{Dev: true, Flags: []Flag{{"-data-dir", "data_dir", file + "/sub"}}})
	if err == nil || !strings.Contains(err.Error(), "-data-dir: data_dir: must be a directory, and "+strconv.Quote(file)+" is not") {
		t.Errorf("%v", err)
	}
	_, err = load(t, "data_dir = \"/d\"\nclient {\n enabled = true\n alloc_dir = "+strconv.Quote(file)+"\n}\n")
	if err == nil || !strings.Contains(err.Error(), ":4: client.alloc_dir: must be a directory") {
		t.Errorf("%v", err)
	}
}

func TestFlagsOfAllKinds(t *testing.T) {
	c, err := Load(nil, Overrides{Flags: []Flag{
		{"-data-dir", "data_dir", "/d"},
		{"-client", "client.enabled", true},
		{"-servers", "client.servers", []string{"10.0.0.1", "[fd00::1]:5000", "s.example"}},
		{"-meta", "client.meta", map[string]string{"rack": "r1"}},
		{"-meta", "client.meta", map[string]string{"row": "2"}},
		{"-http-port", "ports.http", 4000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Client.Servers, c.Client.Meta, c.HTTP.Port); got != "[10.0.0.1:4647 [fd00::1]:5000 s.example:4647] map[rack:r1 row:2] 4000" {
		t.Errorf("got %s", got)
	}
	_, err = Load(nil, Overrides{Dev: true, Flags: []Flag{{"-bind", "bind_addr", "nowhere"}, {"-servers", "client.servers", true}}})
	if err == nil || !strings.Contains(err.Error(), "-servers: client.servers: must be a list of strings, got true") {
		t.Errorf("flags that are wrong: %v", err)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.hcl")
	if err := os.WriteFile(huge, bytes.Repeat([]byte("# \n"), maxFile/3+1), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]string{filepath.Join(dir, "missing.hcl"), huge}, Overrides{})
	for _, want := range []string{"missing.hcl: no such file or directory", "bytes, at most 1048576 are allowed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	var deep strings.Builder
	for range 100_000 {
		deep.WriteString("a { ")
	}
	for _, text := range []string{deep.String(), strings.Repeat("[", 200_000), "{" + strings.Repeat(`"a":{`, 100_000)} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), "nested deeper than 50") {
			t.Errorf("%.10s…: %v", text, err)
		}
	}
}

// The example of Nomad's documentation, but for what is not supported.
func TestPublicTellsWhatIs(t *testing.T) {
	c, err := load(t, `
		name = "n1"
		data_dir = "/d"
		region = "eu"
		client { meta { rack = "r1" } }
		plugin "raw_exec" { config { enabled = false } }`)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(c.Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Region":"eu"`, `"NodeName":"n1"`, `"Meta":{"rack":"r1"}`, `"raw_exec":false`, `"Ports":{"HTTP":4646,"RPC":4647,"Serf":0}`, `"ACL":{"Enabled":false}`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not in %s", want, b)
		}
	}
}

// FuzzConfig loads any text: it is refused with problems, or complete.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no stories: ", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for para := range strings.SplitSeq(string(text), "\n\n") {
			body, _, _ := strings.Cut(para, "----")
			for part := range strings.SplitSeq(body, "== ") {
				_, rest, _ := strings.Cut(part, "\n")
				f.Add([]byte(rest))
			}
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "a.hcl")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Load([]string{file}, Overrides{Flags: []Flag{{"-data-dir", "data_dir", "/d"}}})
		if err != nil {
			if berth.KindOf(err) != berth.Invalid {
				t.Fatalf("the error is of kind %q: %v", berth.KindOf(err), err)
			}
			return
		}
		if !c.Server.Enabled && !c.Client.Enabled || c.Name == "" || c.HTTP.Advertise == "" && c.HTTP.Port != 0 || c.Server.DataDir == "" {
			t.Errorf("it is not complete: %+v", c)
		}
		if !c.HTTP.Loopback() && (!c.TLS.HTTP || !c.TLS.VerifyHTTPSClient) && len(c.Warnings) == 0 {
			t.Error("it is open without a warning")
		}
		if _, err := json.Marshal(c.Public()); err != nil {
			t.Error(err)
		}
	})
}

// The advertised address is private and of a kind that the agent listens on.
func TestPrivateIP(t *testing.T) {
	for _, c := range []struct {
		addrs string
		both  bool
		want  string
	}{
		{"127.0.0.1/8 203.0.113.7/24 10.0.0.7/8 192.168.0.1/16", false, "10.0.0.7"},
		{"fd00::7/64 10.0.0.7/8", true, "10.0.0.7"},
		{"fe80::1/64 2001:db8::1/64 fd00::7/64 fd00::8/64", true, "fd00::7"},
		{"fd00::7/64", false, ""},
		{"127.0.0.1/8 ::1/128", true, ""},
		{"", true, ""},
	} {
		var addrs []net.Addr
		for _, s := range strings.Fields(c.addrs) {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				t.Fatal(err)
			}
			addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		if got := privateIP(addrs, c.both); got != c.want {
			t.Errorf("of %s: %q, want %q", c.addrs, got, c.want)
		}
	}
}

// A region is its own authority, or has another one. Without a token it copies
// nothing from there, which is worth a warning.
func TestAuthoritativeRegion(t *testing.T) {
	const rest = "\ndata_dir = \"/d\"\nserver {\n enabled = true\n bootstrap_expect = 1\n authoritative_region = "
	for region, want := range map[string]string{
		`"eu"`: "", `""`: "", `"global"`: "", `"a/b"`: `server.authoritative_region: "a/b" is not a valid name`,
	} {
		_, err := load(t, `region = "eu"`+rest+region+"\n}")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", region, err, want)
		}
	}
	for acl, want := range map[string]string{
		"": "", "acl { enabled = true }": `acl.replication_token is not set: policies, tokens and namespaces of the authoritative region "global" are not copied to region "eu"`,
		"acl { enabled = true replication_token = \"x\" }": "",
	} {
		c, err := load(t, `region = "eu"`+rest+`"global"`+"\n}\n"+strings.ReplaceAll(acl, " replication", "\nreplication"))
		if err != nil {
			t.Fatal(acl, err)
		}
		if got := strings.Join(c.Warnings, "\n"); strings.Contains(got, "replication_token") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: warns %q, want %q", acl, got, want)
		}
	}
}
