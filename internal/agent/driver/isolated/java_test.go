package isolated

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth"
	"berth/internal/agent/driver/drivertest"
)

// A class and an archive run, with options and arguments, in the task's tree.
func TestJavaRunsClassesAndArchives(t *testing.T) {
	d := Java(Config{})
	needs(t, d)
	javac, err := exec.LookPath("javac")
	if err != nil {
		t.Fatal("there is no javac, which make deps installs")
	}
	s := suite()
	alloc := s.Alloc(t)
	first := alloc(1, nil)
	dir := filepath.Join(first.Dir, "local")
	source := filepath.Join(dir, "Hello.java")
	const text = `public class Hello { public static void main(String[] a) { System.out.println(System.getProperty("who") + " " + String.join(" ", a)); System.exit(5); } }`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{javac, "-d", dir, source}, {"jar", "--create", "--file", filepath.Join(dir, "hello.jar"), "--main-class", "Hello", "-C", dir, "Hello.class"}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	for i, config := range []map[string]any{
		{"class": "Hello", "class_path": "/local"}, {"jar_path": "local/hello.jar"},
	} {
		config["jvm_options"], config["args"] = []any{"-Xmx64m", "-Dwho=me"}, []any{"a", "b"}
		task := alloc(uint64(i+1), config)
		h, err := d.Start(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		e, err := h.Wait(t.Context())
		if err != nil || e.Code != 5 {
			t.Errorf("%v: %+v, %v: %s", config, e, err, drivertest.Output(t, task, "stderr"))
		}
	}
	if got := drivertest.Output(t, first, "stdout"); got != strings.Repeat("me a b\n", 2) {
		t.Errorf("%q", got)
	}
	for _, config := range []map[string]any{{}, {"class": "Hello", "jar_path": "local/hello.jar"}} {
		if _, err := d.Start(t.Context(), alloc(9, config)); berth.KindOf(err) != berth.Invalid {
			t.Errorf("%v: %v", config, err)
		}
	}
}
