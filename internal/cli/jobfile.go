package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/internal/decode"
	"berth/jobspec"
	"berth/op"
)

// jobFileFlags control how a job file is read.
type jobFileFlags struct {
	json, strict   *bool
	vars, varFiles *[]string
}

// jobFile declares the flags of commands that read a job file.
func (f *flags) jobFile() jobFileFlags {
	return jobFileFlags{
		json:     f.Bool("json", "Require JSON. Without this flag, HCL and JSON are both accepted."),
		strict:   f.FlagSet.Bool("hcl2-strict", true, "Reject values for variables that the job file does not declare. Use -hcl2-strict=false to ignore such values."),
		vars:     f.List("var", "Set a job file variable as `name=value`. Can be repeated."),
		varFiles: f.List("var-file", "Read job file variables from the file at `path`. Can be repeated."),
	}
}

// jobFile is a job and the source it was made from.
type jobFile struct {
	job        *berth.Job
	tree       decode.RawTree // what is submitted
	submission *berth.JobSubmission
}

// read reads the job file that the argument names; "-" is standard input.
func (f jobFileFlags) read(ctx context.Context, c *call, name string) (*jobFile, error) {
	file, dir, err := c.readFile(name, "job file")
	if err != nil {
		return nil, err
	}
	// Files that functions of the job file read are relative to the job file.
	o := jobspec.Options{Env: c.Env, Vars: *f.vars, Strict: *f.strict, Files: jobspec.LocalFiles(dir)}
	var variables strings.Builder
	for _, name := range *f.varFiles {
		vf, _, err := c.readFile(name, "variable file")
		if err != nil {
			return nil, err
		}
		o.VarFiles = append(o.VarFiles, vf)
		variables.Write(append(vf.Text, '\n'))
	}
	// HCL cannot begin with a brace, so the text decides, not the file's name.
	isJSON := looksLikeJSON(file.Text)
	if *f.json && !isJSON {
		return nil, berth.Errorf(berth.Invalid, "%s: -json requires a JSON object", file.Name)
	}
	j, err := jobspec.Parse(ctx, file, o)
	if err != nil {
		return nil, withSource(err, append([]jobspec.File{file}, o.VarFiles...)...)
	}
	// The source is kept with the job, so that "job inspect -hcl" can print it.
	out := &jobFile{job: j, submission: &berth.JobSubmission{
		Source: string(file.Text), Format: "hcl2", VariableFlags: f.flagMap(), Variables: strings.TrimSpace(variables.String()),
	}}
	if isJSON {
		out.submission.Format = "json"
	}
	return out, out.address(ctx, c, file, o)
}

// looksLikeJSON reports whether a text can only be a JSON object.
func looksLikeJSON(text []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(string(text), "\ufeff"), " \t\r\n"), "{")
}

// address makes the tree to submit. Region and namespace come from the file, or
// else from flags and environment, or else from the server.
func (f *jobFile) address(ctx context.Context, c *call, file jobspec.File, o jobspec.Options) error {
	// Parsing fills in defaults; only the raw tree shows what the file has.
	said, err := jobspec.ParseTree(ctx, file, o)
	if err != nil {
		return err
	}
	if f.tree, err = client.JobTree(f.job); err != nil {
		return err
	}
	for _, x := range []struct {
		name, ours string
		field      *string
	}{{"Region", c.config.Region, &f.job.Region}, {"Namespace", c.config.Namespace, &f.job.Namespace}} {
		switch {
		case says(said, x.name):
		case x.ours == berth.AllNamespaces:
			return c.usagef("a job has exactly one namespace: '*' is only for queries")
		case x.ours != "":
			f.tree[x.name] = x.ours
			*x.field = x.ours
		default:
			delete(f.tree, x.name)
		}
	}
	return nil
}

// seek sends all further calls to the region that the job file names. Many job files
// name "global" on clusters that have no such region; then the agent's region is used.
func (f *jobFile) seek(ctx context.Context, c *call) (err error) {
	if _, named := f.tree["Region"]; !named {
		return nil // the agent that is called decides
	}
	to := c.config.Config
	if to.Region = f.job.Region; to.Region == berth.DefaultRegion {
		to.Region = ""
		if c.client, err = client.New(to); err != nil {
			return err
		}
		regions, _, err := client.Call(ctx, c.client, op.Regions, op.Query{})
		if err != nil {
			return err
		}
		if slices.Contains(regions, f.job.Region) {
			to.Region = f.job.Region
		} else {
			delete(f.tree, "Region")
		}
	}
	c.config.Region = to.Region
	c.client, err = client.New(to)
	return err
}

// says reports whether a tree has a value of that name.
func says(tree decode.Tree, name string) bool {
	for k, v := range tree {
		if s, _ := v.(string); strings.EqualFold(k, name) && s != "" {
			return true
		}
	}
	return false
}

// flagMap returns the variables on the command line by name.
func (f jobFileFlags) flagMap() map[string]string {
	if len(*f.vars) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, v := range *f.vars {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return m
}

// readFile reads a file, up to the maximum size of a job file, and returns its
// directory.
func (c *call) readFile(name, what string) (f jobspec.File, dir string, err error) {
	// Nomad's command line downloads such names; Berth's downloads nothing.
	if strings.Contains(name, "://") || strings.Contains(name, "::") {
		return f, "", berth.Errorf(berth.Invalid, "%q: a %s is read from disk or, with \"-\", from standard input; to use a URL: curl -fsS URL | %s %s -",
			name, what, c.Name, c.command.name)
	}
	// Standard input has no directory, so the current one takes its place.
	in, shown := c.In, "standard input"
	dir = or(c.Dir, ".")
	if name != "-" {
		opened, err := os.Open(c.path(name))
		if err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = e.Err // the message below has the name
			}
			return f, "", berth.Errorf(berth.Invalid, "read %s %s: %w", what, name, err)
		}
		defer opened.Close()
		if st, err := opened.Stat(); err == nil && st.IsDir() {
			return f, "", berth.Errorf(berth.Invalid, "read %s %s: is a directory", what, name)
		}
		in, shown, dir = opened, shortName(dir, name), filepath.Dir(c.path(name))
	}
	text, err := io.ReadAll(io.LimitReader(in, jobspec.MaxText+1)) // one byte more, so that the parser reports the limit
	if err != nil {
		return f, "", fmt.Errorf("read %s %s: %w", what, shown, err)
	}
	return jobspec.File{Name: shown, Text: text}, dir, nil
}
