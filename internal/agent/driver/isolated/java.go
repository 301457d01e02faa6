package isolated

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"berth"
	"berth/internal/driverconfig"
)

// Java returns the driver java: a task is a class or an archive that the host's
// Java runs.
func Java(c Config) *Driver {
	var found javaFound
	return &Driver{c: c, schema: driverconfig.Java, program: javaCommand, extra: found.find}
}

// javaCommand makes the command line of a task's config.
func javaCommand(v driverconfig.Values) (string, []string, error) {
	class, classPath, jar := v.String("class"), v.String("class_path"), v.String("jar_path")
	args := append([]string(nil), v.Strings("jvm_options")...)
	switch {
	case jar == "" && class == "":
		return "", nil, berth.Errorf(berth.Invalid, "config: jar_path or class must be set")
	case jar != "" && class != "":
		return "", nil, berth.Errorf(berth.Invalid, "config: jar_path and class are both set; give one of the two")
	}
	if classPath != "" {
		args = append(args, "-cp", classPath)
	}
	if jar != "" {
		args = append(args, "-jar", jar)
	} else {
		args = append(args, class)
	}
	return "java", append(args, v.Strings("args")...), nil
}

// javaVersion finds the version in what java -version prints.
var javaVersion = regexp.MustCompile(`version "([^"]+)"`)

// javaFound remembers what is known of the host's Java: to ask it takes most of a
// second.
type javaFound struct {
	mu         sync.Mutex
	path       string
	attributes map[string]string
}

// find returns the attributes of the host's Java.
func (f *javaFound) find(ctx context.Context) (map[string]string, string) {
	path, err := exec.LookPath("java")
	if err != nil {
		return nil, "there is no java in the agent's PATH"
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == path {
		return f.attributes, ""
	}
	if attributes := released(path); attributes != nil {
		f.path, f.attributes = path, attributes
		return attributes, ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return nil, "java cannot be run: " + berth.Clip(err.Error(), 200)
	}
	f.path, f.attributes = path, map[string]string{}
	if m := javaVersion.FindSubmatch(out); m != nil {
		f.attributes["driver.java.version"] = string(m[1])
	}
	if lines := bytes.Split(bytes.TrimSpace(out), []byte("\n")); len(lines) >= 3 {
		f.attributes["driver.java.runtime"] = strings.TrimSpace(string(lines[len(lines)-2]))
		f.attributes["driver.java.vm"] = strings.TrimSpace(string(lines[len(lines)-1]))
	}
	return f.attributes, ""
}

// released reads the attributes from the file release, which most distributions
// of Java have beside the directory of the program; nil if there is none.
func released(path string) map[string]string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(real)), "release"))
	if err != nil {
		return nil
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = strings.Trim(value, `"`)
	}
	if values["JAVA_VERSION"] == "" {
		return nil
	}
	out := map[string]string{"driver.java.version": values["JAVA_VERSION"]}
	if r := strings.TrimSpace(values["IMPLEMENTOR"] + " " + values["JAVA_RUNTIME_VERSION"]); r != "" {
		out["driver.java.runtime"] = r
	}
	return out
}
