package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"berth"
)

// Overrides are the flags of the command line. They take precedence over files.
type Overrides struct {
	Dev   bool
	Flags []Flag // later ones win, and all win over files
	// Again is the configuration that is in force, when it is read again: no
	// directory is made.
	Again *Config
}

// Flag is one flag of the command line, with its configuration key:
// {"-node-class", "client.node_class", "large"}.
type Flag struct {
	Name  string // as the user typed it, for messages
	Key   string // nested keys are separated by dots
	Value any    // string, bool, int, []string or map[string]string
}

// maxFiles is how many files of one directory are read.
const maxFiles = 1000

// Load reads files and directories in order and applies flags to the result. Of
// a directory it reads the files that end in .hcl or .json, by name. All
// problems are returned together, as berth.Problems of the kind Invalid. With
// Dev, the data directory is a new temporary directory unless one is given; see
// Config.TempData.
func Load(paths []string, flags Overrides) (*Config, error) {
	var ps berth.Problems
	all, files := object{}, []string{}
	for _, path := range paths {
		for _, file := range filesOf(path, &ps) {
			if text, ok := readFile(file, &ps); ok {
				merge(all, parse(file, text, &ps), "")
				files = append(files, file)
			}
		}
	}
	for _, f := range flags.Flags {
		merge(all, f.object(), "")
	}
	c := defaults(flags.Dev)
	c.Files = files
	d := &decoder{to: c, problems: &ps, setAt: map[string]string{}}
	d.block("", &node{value: all}, supported)
	d.external()
	if flags.Dev { // -dev runs both, whatever the files say
		c.Server.Enabled, c.Client.Enabled = true, true
	}
	if len(ps) == 0 { // otherwise values that others depend on may be missing
		d.complete(flags.Dev)
	}
	if len(ps) > 0 {
		sortProblems(ps, files)
		return nil, ps.Err()
	}
	if flags.Again != nil {
		c.TempData, c.DataDir = false, flags.Again.DataDir
		return c, nil
	}
	if err := c.makeTemp(); err != nil {
		return nil, err
	}
	return c, nil
}

// makeTemp creates the data directory of a -dev agent, once nothing else is
// wrong.
func (c *Config) makeTemp() error {
	if !c.TempData {
		return nil
	}
	dir, err := os.MkdirTemp("", "berth-dev-")
	if err != nil {
		return fmt.Errorf("create a data directory for -dev: %w", err)
	}
	// Tasks of other users pass through it to their own directories.
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("create a data directory for -dev: %w", err)
	}
	c.DataDir = dir
	c.dirs()
	return nil
}

// dirs sets the directories below the data directory.
func (c *Config) dirs() {
	for _, d := range []struct {
		dir  *string
		name string
	}{{&c.Server.DataDir, "server"}, {&c.Client.StateDir, "client"}, {&c.Client.AllocDir, "alloc"}, {&c.Client.HostVolumesDir, "host_volumes"}, {&c.Client.HostVolumePluginDir, "host_volume_plugins"}, {&c.Client.CommonPluginDir, "common_plugins"}} {
		if *d.dir == "" {
			*d.dir = filepath.Join(c.DataDir, d.name)
		}
	}
	if c.Audit.Path == "" {
		c.Audit.Path = filepath.Join(c.DataDir, "audit", "audit.log")
	}
}

// object returns the flag as a file with that one key would read, so that it
// merges like a file.
func (f Flag) object() object {
	n := f.node(f.Value)
	keys := strings.Split(f.Key, ".")
	// Build the nested blocks from the inside out.
	for _, k := range slices.Backward(keys[1:]) {
		n = &node{f.Name, object{k: n}}
	}
	return object{keys[0]: n}
}

// node returns a flag's value with the flag as its position.
func (f Flag) node(v any) *node {
	switch v := v.(type) {
	case int:
		return &node{f.Name, int64(v)}
	case []string:
		var list []*node
		for _, s := range v {
			list = append(list, &node{f.Name, s})
		}
		return &node{f.Name, list}
	case map[string]string:
		o := object{}
		for k, s := range v {
			o[k] = &node{f.Name, s}
		}
		return &node{f.Name, o}
	}
	return &node{f.Name, v}
}

// filesOf returns the file, or the files of the directory.
func filesOf(path string, ps *berth.Problems) []string {
	info, err := os.Stat(path)
	if err != nil {
		*ps = append(*ps, berth.Problem{Pos: path, Text: cause(err)})
		return nil
	}
	if !info.IsDir() {
		return []string{path}
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		*ps = append(*ps, berth.Problem{Pos: path, Text: cause(err)})
		return nil
	}
	var out []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || ext != ".hcl" && ext != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if len(out) == maxFiles {
			*ps = append(*ps, berth.Problem{Pos: path, Text: fmt.Sprintf("more than %d files", maxFiles)})
			break
		}
		out = append(out, filepath.Join(path, e.Name()))
	}
	return out
}

// readFile returns a file up to one byte over maxFile, by which the caller
// notices that it is too large. ok is false after a problem.
func readFile(path string, ps *berth.Problems) (text []byte, ok bool) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		*ps = append(*ps, berth.Problem{Pos: path, Text: cause(err)})
		return nil, false
	}
	return text, true
}

// cause is the text of an error without the path, which the problem has
// already.
func cause(err error) string {
	if e, ok := err.(*os.PathError); ok {
		err = e.Err
	}
	return err.Error()
}

// sortProblems orders problems by file and line.
func sortProblems(ps berth.Problems, files []string) {
	place := func(p berth.Problem) (file, line int) {
		cut := strings.LastIndexByte(p.Pos, ':')
		if cut < 0 {
			return slices.Index(files, p.Pos) + 1, 0
		}
		line, _ = strconv.Atoi(p.Pos[cut+1:])
		return slices.Index(files, p.Pos[:cut]) + 1, line
	}
	slices.SortStableFunc(ps, func(a, b berth.Problem) int {
		f, l := place(a)
		g, m := place(b)
		return cmp.Or(cmp.Compare(f, g), cmp.Compare(l, m), cmp.Compare(a.Path, b.Path))
	})
}
