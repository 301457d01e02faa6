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

// exampleCommand is a command that writes an example of a specification, to be
// edited. file is its name without the ending, examples are the texts by ending.
func exampleCommand(name, what, file, example string, examples map[string]string) *command {
	return &command{
		name: name, args: "[filename]", synopsis: "Write an example " + what + " specification", max: 1, local: true,
		example: example,
		help: fmt.Sprintf(`Writes an example specification to %s.hcl or %s.json, unless a file name is given. An existing file is not
			overwritten.`, file, file),
		setup: func(f *flags) action {
			out := f.FlagSet.String("out", "hcl", "The `format`: hcl or json.")
			quiet := f.Bool("quiet", "Print nothing.")
			return func(_ context.Context, c *call) error {
				text, ok := examples[*out]
				if !ok {
					return c.usagef("flag -out must be hcl or json, got %q", *out)
				}
				to := file + "." + *out
				if len(c.args) == 1 {
					to = c.args[0]
				}
				if err := writeNew(c.path(to), text); err != nil {
					return berth.Errorf(berth.Invalid, "write %s: %w", to, err)
				}
				if *quiet {
					return nil
				}
				_, err := fmt.Fprintf(c.Out, "Example %s specification written to %s\n", what, to)
				return err
			}
		},
	}
}

// writeNew creates a file. It fails if the file exists.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err // the caller adds the name
	}
	return err
}
