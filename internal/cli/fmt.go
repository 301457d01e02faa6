package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/jobspec"
)

// fmtCommand brings HCL files into their canonical form.
func fmtCommand() *command {
	return &command{
		name: "fmt", args: "[<path>...]", synopsis: "Format job files and configuration files", max: -1, local: true,
		example: "fmt -recursive jobs/",
		help: `Rewrites HCL files in their canonical form: indented by two spaces, with the equals signs of neighboring lines aligned. Comments and
			the order of lines stay as they are. Of a directory, it formats the files that end in .nomad or .hcl; without a path, those of the
			current directory. With "-", it reads standard input and writes to standard output. JSON files are left alone.

			Prints the names of the files that it changed. A file that is not valid HCL stays as it is.

			The exit code is 1 if a file is not valid HCL, and with -check also if a file is not formatted.`,
		setup: func(f *flags) action {
			o := formatting{
				check:     f.Bool("check", "Change nothing; the exit code is 1 if a file is not formatted."),
				write:     f.FlagSet.Bool("write", true, "Rewrite the files. With -write=false and -list=false, the result is printed instead."),
				list:      f.FlagSet.Bool("list", true, "Print the names of files that are not formatted."),
				recursive: f.Bool("recursive", "Format the files of all subdirectories as well."),
			}
			return o.run
		},
	}
}

// formatting holds the flags of "fmt".
type formatting struct{ check, write, list, recursive *bool }

// run formats all files. It continues after a file that cannot be formatted.
func (o formatting) run(_ context.Context, c *call) error {
	paths := c.args
	if len(paths) == 0 {
		paths = []string{or(c.Dir, ".")}
	}
	if slices.Contains(paths, "-") {
		if len(paths) > 1 {
			return c.usagef("\"-\" cannot be used with other paths")
		}
		return o.stream(c)
	}
	var failed bool
	for _, path := range paths {
		files, err := o.filesOf(c, path)
		if err != nil {
			return err
		}
		for _, name := range files {
			changed, err := o.file(c, name)
			if err != nil {
				fmt.Fprintln(c.Err, "Error: "+clean(err.Error()))
			}
			failed = failed || err != nil || changed && *o.check
		}
	}
	if failed {
		return exit(exitError)
	}
	return nil
}

// filesOf returns the files that a path stands for, in order of name.
func (o formatting) filesOf(c *call, path string) (out []string, err error) {
	info, err := os.Stat(c.path(path))
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "read %s: %w", path, causeOf(err))
	}
	if !info.IsDir() {
		if !isHCL(path) {
			return nil, berth.Errorf(berth.Invalid, "%s: only files that end in .nomad or .hcl can be formatted", path)
		}
		return []string{path}, nil
	}
	err = filepath.WalkDir(c.path(path), func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && at != c.path(path) && (!*o.recursive || strings.HasPrefix(e.Name(), ".")):
			return filepath.SkipDir
		case !e.IsDir() && isHCL(at) && !strings.HasPrefix(e.Name(), "."):
			out = append(out, at)
		}
		return nil
	})
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "read %s: %w", path, causeOf(err))
	}
	return out, nil
}

// isHCL reports whether a file can be formatted, by its name.
func isHCL(name string) bool {
	return slices.Contains([]string{".nomad", ".hcl"}, filepath.Ext(name))
}

// causeOf returns an error without the operation and the path that a message
// has already.
func causeOf(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// file formats one file.
func (o formatting) file(c *call, name string) (changed bool, err error) {
	f, _, err := c.readFile(name, "file")
	if err != nil {
		return false, err
	}
	text, err := jobspec.Format(f)
	if err != nil {
		return false, withSource(err, f)
	}
	changed = !bytes.Equal(text, f.Text)
	if changed && *o.list {
		fmt.Fprintln(c.Out, clean(f.Name))
	}
	switch {
	case *o.check:
	case changed && *o.write:
		return true, replaceFile(c.path(name), text)
	case !*o.write && !*o.list:
		_, err = c.Out.Write(text)
	}
	return changed, err
}

// stream formats standard input.
func (o formatting) stream(c *call) error {
	f, _, err := c.readFile("-", "file")
	if err != nil {
		return err
	}
	text, err := jobspec.Format(f)
	if err != nil {
		return withSource(err, f)
	}
	if *o.check {
		if !bytes.Equal(text, f.Text) {
			return exit(exitError)
		}
		return nil
	}
	_, err = c.Out.Write(text)
	return err
}

// replaceFile puts a text in place of a file, which keeps its permissions. A
// reader sees either the old or the new text. A symbolic link stays one.
func replaceFile(path string, text []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return replaceWith(path, info.Mode().Perm(), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// replaceWith writes a file beside path and then puts it in its place.
func replaceWith(path string, mode fs.FileMode, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return berth.Errorf(berth.Invalid, "write %s: %w", path, causeOf(err))
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
