package jobspec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"berth"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// timestampFunc is the HCL function timestamp: the present time in UTC.
var timestampFunc = function.New(&function.Spec{
	Type: function.StaticReturnType(cty.String),
	Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
		return cty.StringVal(time.Now().UTC().Format(time.RFC3339)), nil
	},
})

// lengthFunc returns the number of elements, or of characters of a text.
var lengthFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowMarked: true}},
	Type: func(args []cty.Value) (cty.Type, error) {
		return cty.Number, nil
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		v, marks := args[0].Unmark()
		if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
			if len(marks) > 0 {
				return cty.DynamicVal, errors.New("the length of this text is only known where the task runs")
			}
			return stdlib.Strlen(v)
		}
		return stdlib.Length(v)
	},
})

// sumFunc is the HCL function sum: the total of a list of numbers.
var sumFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		sum := cty.Zero
		for it := args[0].ElementIterator(); it.Next(); {
			_, n := it.Element()
			if n.IsNull() {
				return cty.DynamicVal, errors.New("the list must not contain null")
			}
			sum = sum.Add(n)
		}
		return sum, nil
	},
})

// allOf returns a function that reports whether all elements are true, or any
// if all is false.
func allOf(all bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			for it := args[0].ElementIterator(); it.Next(); {
				if _, b := it.Element(); (!b.IsNull() && b.True()) != all {
					return cty.BoolVal(!all), nil
				}
			}
			return cty.BoolVal(all), nil
		},
	})
}

// textTest returns an HCL function of two strings that gives what test reports.
func textTest(test func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "string", Type: cty.String}, {Name: "part", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(test(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// localFiles is the file system of this machine.
type localFiles struct{ dir string }

// LocalFiles returns all files that the process may read. Relative names start
// at dir. It is for the CLI, whose user may read them anyway; a server must not
// use it.
func LocalFiles(dir string) fs.FS { return localFiles{dir} }

// Open implements fs.FS. Unlike os.DirFS it takes absolute names and names with
// "..".
func (l localFiles) Open(name string) (fs.File, error) { return os.Open(l.abs(name)) }

// abs returns the absolute name of a file.
func (l localFiles) abs(name string) string {
	name = filepath.FromSlash(name)
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.dir, name)
	}
	if full, err := filepath.Abs(name); err == nil {
		return full
	}
	return filepath.Clean(name)
}

// home replaces ~ at the beginning of a path.
func (s *scope) home(name string) string {
	if _, local := s.files.(localFiles); !local || name != "~" && !strings.HasPrefix(name, "~/") {
		return name
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return name
	}
	return dir + name[1:]
}

// fileName returns the name to open for a path in a job file.
func (s *scope) fileName(given string) (string, error) {
	name := s.home(given)
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("must be a file name, got %q", berth.Clip(given, 128))
	}
	name = path.Clean(filepath.ToSlash(name))
	if _, local := s.files.(localFiles); !local && !fs.ValidPath(name) {
		return "", fmt.Errorf("%q is outside the files that can be read here", berth.Clip(given, 128))
	}
	return name, nil
}

// pathParam is the parameter of all functions that take one file name.
var pathParam = []function.Parameter{{Name: "path", Type: cty.String}}

// fileFunc returns a function that reads a file and returns its content
// converted by show.
func fileFunc(show func([]byte) string, mustBeText bool) func(*scope) function.Function {
	return func(s *scope) function.Function {
		return function.New(&function.Spec{
			Params: pathParam,
			Type:   function.StaticReturnType(cty.String),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				b, err := s.readFile(args[0].AsString())
				if err != nil {
					return cty.DynamicVal, err
				}
				if mustBeText && !utf8.Valid(b) {
					return cty.DynamicVal, fmt.Errorf("%q is not UTF-8 text; filebase64 reads any file", berth.Clip(args[0].AsString(), 128))
				}
				return cty.StringVal(show(b)), nil
			},
		})
	}
}

// readFile returns the contents of a file that a job file names, and charges
// the meter for its bytes. A file of more than MaxText bytes is an error.
func (s *scope) readFile(given string) ([]byte, error) {
	name, err := s.fileName(given)
	if err != nil {
		return nil, err
	}
	f, err := s.files.Open(name)
	if err != nil {
		return nil, fileError(given, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxText+1))
	if err != nil {
		return nil, fileError(given, err)
	}
	if len(b) > MaxText {
		return nil, fmt.Errorf("%q must be at most %d bytes", berth.Clip(given, 128), MaxText)
	}
	s.m.text(len(b))
	return b, nil
}

// fileError names the file as the job file does, without the full path.
func fileError(given string, err error) error {
	cause := err
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		cause = e.Err
	}
	return fmt.Errorf("%q cannot be read: %w", berth.Clip(given, 128), cause)
}

// escapeTemplate escapes text so that a template evaluates to it.
func escapeTemplate(b []byte) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(b))
}

// fileExists returns the HCL function fileexists. A directory or a device is an
// error, not false.
func fileExists(s *scope) function.Function {
	return function.New(&function.Spec{
		Params: pathParam,
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			given := args[0].AsString()
			name, err := s.fileName(given)
			if err != nil {
				return cty.DynamicVal, err
			}
			info, err := fs.Stat(s.files, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return cty.False, nil
			case err != nil:
				return cty.DynamicVal, fileError(given, err)
			case !info.Mode().IsRegular():
				return cty.DynamicVal, fmt.Errorf("%q is not a regular file", berth.Clip(given, 128))
			}
			return cty.True, nil
		},
	})
}

// fileSet returns the HCL function fileset: the regular files below a directory
// that match a pattern with **. Each directory that is opened is charged to the
// meter, so that a pattern over a whole disk ends.
func fileSet(s *scope) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "pattern", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Set(cty.String)),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			given, pattern := args[0].AsString(), path.Clean(args[1].AsString())
			name, err := s.fileName(given)
			if err != nil {
				return cty.DynamicVal, err
			}
			var files fs.FS
			if local, is := s.files.(localFiles); is {
				files = os.DirFS(local.abs(name))
			} else if files, err = fs.Sub(s.files, name); err != nil {
				return cty.DynamicVal, fileError(given, err)
			}
			// An invalid pattern would otherwise match nothing
			// without an error.
			if !doublestar.ValidatePattern(pattern) {
				return cty.DynamicVal, fmt.Errorf("must be a pattern, got %q", berth.Clip(pattern, 128))
			}
			var found []cty.Value
			err = doublestar.GlobWalk(stepping{files, s.m}, pattern, func(name string, _ fs.DirEntry) error {
				s.m.text(len(name))
				found = append(found, cty.StringVal(name))
				return nil
			}, doublestar.WithFilesOnly())
			if err != nil {
				return cty.DynamicVal, fileError(given, err)
			}
			if len(found) == 0 {
				return cty.SetValEmpty(cty.String), nil
			}
			return cty.SetVal(found), nil
		},
	})
}

// stepping is a file system whose Open is charged.
type stepping struct {
	fs.FS
	m *meter // charged for each file that is opened
}

// Open implements fs.FS and charges the meter for each file or directory.
func (s stepping) Open(name string) (fs.File, error) {
	s.m.step(100)
	return s.FS.Open(name)
}

// absPath returns the HCL function abspath. Where the files are not those of
// this machine, their root is "/".
func absPath(s *scope) function.Function {
	return function.New(&function.Spec{
		Params: pathParam,
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name, err := s.fileName(args[0].AsString())
			if err != nil {
				return cty.DynamicVal, err
			}
			if local, is := s.files.(localFiles); is {
				return cty.StringVal(filepath.ToSlash(local.abs(name))), nil
			}
			return cty.StringVal(path.Join("/", name)), nil
		},
	})
}

// pathExpand returns the HCL function pathexpand, which replaces a leading ~ by
// the home directory.
func pathExpand(s *scope) function.Function {
	return function.New(&function.Spec{
		Params: pathParam,
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.StringVal(s.home(args[0].AsString())), nil
		},
	})
}
