package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a cluster has is taken over by another one through its public API, and
// what a directory has; a dry run changes nothing and says what would be done,
// and a second run finds everything there.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	start := func(name string) (string, func(args ...string) (int, string, string)) {
		c, err := startCluster(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.stop(); err != nil {
				t.Error(err)
			}
		})
		return c.http, func(args ...string) (int, string, string) { return runLine(t, dir, c.http, args...) }
	}
	from, there := start("there")
	_, here := start("here")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := func(name, namespace, command string) string {
		return "job \"" + name + "\" {\n  namespace = \"" + namespace + "\"\n  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n      config {\n        command = \"" + command + "\"\n      }\n    }\n  }\n}\n"
	}
	good := func(run func(...string) (int, string, string), args ...string) string {
		t.Helper()
		code, out, errs := run(args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		return out
	}
	write("web.nomad", job("web", "default", "/bin/true"))
	write("api.nomad", job("api", "team", "/bin/true"))
	write("old.nomad", job("old", "default", "/bin/true"))
	good(there, "namespace", "apply", "-description", "a team", "team")
	good(there, "var", "put", "-namespace", "team", "app/db", "password=canary", "user=u")
	for _, name := range []string{"web", "api", "old"} {
		good(there, "job", "run", "-detach", name+".nomad")
	}
	good(there, "job", "stop", "-detach", "old")

	const dry = "Namespace \"team\": would be created\nVariable \"app/db\" in namespace \"team\": would be created with 2 items\n" +
		"Job \"old\" in namespace \"default\": would be left out, because it was stopped\nJob \"web\" in namespace \"default\": would be registered\n"
	out := good(here, "operator", "import", "-from", from, "-dry-run")
	if !strings.Contains(out, "Namespace \"team\": would be created\n") || !strings.Contains(out, "Job \"api\" in namespace \"team\": would be registered") ||
		!strings.Contains(out, "Job \"web\" in namespace \"default\": would be registered\n    would wait: ") || strings.Contains(out, "canary") || !strings.Contains(out, "would be created with 2 items") {
		t.Errorf("%s\nwant something like\n%s", out, dry)
	}
	if list := good(here, "job", "status", "-namespace", "*"); !strings.Contains(list, "No running jobs") {
		t.Errorf("the dry run changed something:\n%s", list)
	}
	out = good(here, "operator", "import", "-from", strings.TrimPrefix(from, "http://"))
	for _, want := range []string{"Namespace \"team\": created\n", "Variable \"app/db\" in namespace \"team\": created with 2 items\n", "Job \"old\" in namespace \"default\": left out", "Job \"web\" in namespace \"default\": registered\n", "Job \"api\" in namespace \"team\": registered\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s lacks %s", out, want)
		}
	}
	if v := good(here, "var", "get", "-namespace", "team", "-item", "password", "app/db"); strings.TrimSpace(v) != "canary" {
		t.Errorf("the variable is %q", v)
	}
	if source := good(here, "job", "inspect", "-hcl", "web"); !strings.Contains(source, `job "web" {`) {
		t.Errorf("the source is %q", source)
	}
	if _, _, errs := here("job", "status", "old"); !strings.Contains(errs, "No job") {
		t.Errorf("the stopped job: %s", errs)
	}
	out = good(here, "operator", "import", "-from", from, "-from-namespace", "team")
	if out != "Variable \"app/db\" in namespace \"team\": is there already\nJob \"api\" in namespace \"team\": is there already\n" {
		t.Errorf("the second run:\n%s", out)
	}

	// Files: what differs is shown, and what stands in the way.
	write("files/web.nomad", job("web", "default", "/bin/false"))
	write("files/sub/bad.hcl", "job \"bad\" {\n  multiregion {\n  }\n  group \"g\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n      config {\n        command = \"x\"\n      }\n    }\n  }\n}\n")
	write("files/db.nv.hcl", "path = \"app/db\"\nnamespace = \"team\"\nitems {\n  password = \"other\"\n}\n")
	write("files/README.md", "no job")
	code, out, errs := here("operator", "import", "-dry-run", "files")
	if code != 1 || errs != "2 objects could not be taken over\n" || !strings.Contains(out, "would be updated:") || !strings.Contains(out, "/bin/false") ||
		!strings.Contains(out, "it exists with other items; -force replaces it") || !strings.Contains(out, "multiregion") || strings.Contains(out, "README") || strings.Contains(out, "canary") {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	code, out, _ = here("operator", "import", "-force", "files")
	if code != 1 || !strings.Contains(out, "Variable \"app/db\" in namespace \"team\": replaced\n") || !strings.Contains(out, "Job \"web\" in namespace \"default\": updated\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for want, args := range map[string][]string{
		"say what to read": {}, "either -from or files": {"-from", from, "files"}, "are the same": {"-from", hereAddress(t, here)}, "read absent": {"absent"}, "connect": {"-from", "127.0.0.1:1"},
	} {
		if code, _, errs := here(append([]string{"operator", "import"}, args...)...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
}

// hereAddress returns the address that a run of commands calls.
func hereAddress(t *testing.T, run func(...string) (int, string, string)) string {
	t.Helper()
	_, out, _ := run("operator", "api", "-dryrun", "/v1/jobs")
	fields := strings.Fields(out)
	return strings.TrimSuffix(fields[len(fields)-1], "/v1/jobs")
}
