package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"berth"
	"berth/jobspec"
)

// readSpec reads the specification of an object other than a job. It is parsed
// here, so that mistakes have positions.
func readSpec[T any](c *call, path, what string, isJSON bool, parse func(jobspec.File) (*T, error)) (*T, error) {
	file, _, err := c.readFile(path, what+" specification")
	if err != nil {
		return nil, err
	}
	if isJSON && !looksLikeJSON(file.Text) {
		return nil, berth.Errorf(berth.Invalid, "%s: -json requires a JSON object", file.Name)
	}
	out, err := parse(file)
	if err != nil {
		return nil, withSource(err, file)
	}
	return out, nil
}

// example is a command that writes an example of a specification, to be edited.
type example struct {
	name, what string            // of the command; of the object
	file, to   string            // the file's name without its ending; one in the help's example
	texts      map[string]string // by ending: hcl and json
	format     formatFlags
}

// formatFlags adds the flags that choose the format, and returns what reads them:
// hcl or json.
type formatFlags func(*flags) func(*call) (string, error)

// outFlag is -out=json, and jsonFlag is -json.
func outFlag(f *flags) func(*call) (string, error) {
	out := f.FlagSet.String("out", "hcl", "The `format`: hcl or json.")
	return func(c *call) (string, error) {
		if *out != "hcl" && *out != "json" {
			return "", c.usagef("flag -out must be hcl or json, got %q", *out)
		}
		return *out, nil
	}
}

func jsonFlag(f *flags) func(*call) (string, error) {
	isJSON := f.Bool("json", "Write JSON instead of HCL.")
	return func(*call) (string, error) {
		if *isJSON {
			return "json", nil
		}
		return "hcl", nil
	}
}

// command returns the command.
func (e example) command() *command {
	return &command{
		name: e.name, args: "[filename]", synopsis: "Write an example " + e.what + " specification", max: 1, local: true,
		example: e.name + " " + e.to,
		help: fmt.Sprintf(`Writes an example specification to %s.hcl or %s.json, unless a file name is given. An existing file is not
			overwritten.`, e.file, e.file),
		setup: func(f *flags) action {
			format := e.format(f)
			quiet := f.Bool("quiet", "Print nothing.")
			return func(_ context.Context, c *call) error {
				ending, err := format(c)
				if err != nil {
					return err
				}
				to := e.file + "." + ending
				if len(c.args) == 1 {
					to = c.args[0]
				}
				if err := c.writeNew(to, e.texts[ending]); err != nil {
					return err
				}
				if *quiet {
					return nil
				}
				_, err = fmt.Fprintf(c.Out, "Example %s specification written to %s\n", e.what, to)
				return err
			}
		},
	}
}

// writeNew creates a file, whose name is relative to the program's directory. It
// fails if the file exists.
func (c *call) writeNew(name, text string) error {
	f, err := os.OpenFile(c.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return berth.Errorf(berth.Conflict, "%s already exists; nothing was written", name)
	}
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // without the name, which is in the text
	}
	if err != nil {
		return berth.Errorf(berth.Invalid, "write %s: %w", name, err)
	}
	return nil
}
