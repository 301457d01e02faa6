package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth"
	"berth/client"
	"berth/jobspec"
)

// jobFileFlags say how a job file is read.
type jobFileFlags struct {
	json, strict   *bool
	vars, varFiles *[]string
}

func (f *flags) jobFile() jobFileFlags {
	return jobFileFlags{
		json:     f.Bool("json", "The job file is JSON. It is recognised without, too; this refuses anything else."),
		strict:   f.FlagSet.Bool("hcl2-strict", true, "Refuse a value for a variable that the job does not declare; -hcl2-strict=false takes no notice of it."),
		vars:     f.List("var", "A variable of the job file, as `name=value`. May be given many times."),
		varFiles: f.List("var-file", "A `path` of a file with variables of the job file. May be given many times."),
	}
}

// jobFile is a job and what it was made from.
type jobFile struct {
	job        *berth.Job
	tree       berth.RawTree // as it is sent
	submission *berth.JobSubmission
}

// read reads the job file that the argument names; "-" is standard input.
func (f jobFileFlags) read(ctx context.Context, c *call, name string) (*jobFile, error) {
	file, dir, err := c.readFile(name, "job file")
	if err != nil {
		return nil, err
	}
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
	isJSON := looksLikeJSON(file.Text)
	if *f.json && !isJSON {
		return nil, berth.Errorf(berth.Invalid, "%s: with -json an object in JSON is wanted", file.Name)
	}
	j, err := jobspec.Parse(ctx, file, o)
	if err != nil {
		return nil, err
	}
	out := &jobFile{job: j, submission: &berth.JobSubmission{
		Source: string(file.Text), Format: "hcl2", VariableFlags: f.flagMap(), Variables: strings.TrimSpace(variables.String()),
	}}
	if isJSON {
		out.submission.Format = "json"
	}
	return out, out.address(ctx, c, file, o)
}

// looksLikeJSON says whether a text can only be an object in JSON.
func looksLikeJSON(text []byte) bool {
	return strings.HasPrefix(strings.TrimLeft(strings.TrimPrefix(string(text), "\ufeff"), " \t\r\n"), "{")
}

// address makes the tree that is sent. Where the file does not say the region
// or the namespace, the flags and the environment do, or else the server.
func (f *jobFile) address(ctx context.Context, c *call, file jobspec.File, o jobspec.Options) error {
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
			return c.usagef("a job has one namespace; '*' is for looking things up")
		case x.ours != "":
			f.tree[x.name] = x.ours
			*x.field = x.ours
		default:
			delete(f.tree, x.name)
		}
	}
	return nil
}

// says reports whether a tree has a value of that name.
func says(tree berth.Tree, name string) bool {
	for k, v := range tree {
		if s, _ := v.(string); strings.EqualFold(k, name) && s != "" {
			return true
		}
	}
	return false
}

// flagMap are the variables of the command line, by name.
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

// readFile reads a file, no more of it than a job file may have, and the
// folder that it is in.
func (c *call) readFile(name, what string) (f jobspec.File, dir string, err error) {
	if strings.Contains(name, "://") || strings.Contains(name, "::") {
		return f, "", berth.Errorf(berth.Invalid, "%q: a %s is read from disk or, as \"-\", from standard input; fetch it first: curl -fsS URL | %s %s -",
			name, what, c.Name, c.command.name)
	}
	in, shown := c.In, "standard input"
	dir = or(c.Dir, ".")
	if name != "-" {
		opened, err := os.Open(c.path(name))
		if err != nil {
			if e, ok := errors.AsType[*fs.PathError](err); ok {
				err = e.Err // the name is said already
			}
			return f, "", berth.Errorf(berth.Invalid, "read %s %s: %w", what, name, err)
		}
		defer opened.Close()
		if st, err := opened.Stat(); err == nil && st.IsDir() {
			return f, "", berth.Errorf(berth.Invalid, "read %s %s: it is a folder", what, name)
		}
		in, shown, dir = opened, name, filepath.Dir(c.path(name))
	}
	text, err := io.ReadAll(io.LimitReader(in, jobspec.MaxText+1)) // one more: then the parser says how much is allowed
	if err != nil {
		return f, "", fmt.Errorf("read %s %s: %w", what, shown, err)
	}
	return jobspec.File{Name: shown, Text: text}, dir, nil
}
