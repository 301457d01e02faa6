package cli

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// templates are the job files that "job init" can write, by name. The one named
// service is the default; short is for -short.
//
//go:embed templates/*.nomad.hcl
var templates embed.FS

// templatePath is where the templates of a cluster are: variables whose item
// "template" is a job file.
const templatePath = "nomad/job-templates/"

// defaultJobFile is the file that "job init" writes without an argument.
const defaultJobFile = "example.nomad.hcl"

// jobInitCommand writes a job file to start from.
func jobInitCommand() *command {
	return &command{
		name: "job init", args: "[<file>]", synopsis: "Write an example job file", max: 1,
		example: "job init web.nomad.hcl",
		help: `Writes an example job file to start from: "example.nomad.hcl", unless a name is given. The file must not exist. The example runs
			on an agent started with "agent -dev".

			With -template, it writes another file: a built-in one, or the item "template" of the variable nomad/job-templates/<name> in the
			namespace of the command. A variable takes precedence. -list-templates lists both.`,
		setup: func(f *flags) action {
			i := jobInit{
				short:    f.Bool("short", "Write a file without comments."),
				template: f.String("template", "The `name` of a template, or the path of its variable."),
				list:     f.Bool("list-templates", "List the templates and exit."),
			}
			f.UnsupportedBool("connect")
			return i.run
		},
	}
}

// jobInit holds the flags of "job init".
type jobInit struct {
	short    *bool
	template *string
	list     *bool
}

// run lists the templates or writes a file.
func (i jobInit) run(ctx context.Context, c *call) error {
	switch {
	case *i.list && (len(c.args) > 0 || *i.template != "" || *i.short):
		return c.usagef("-list-templates cannot be used with a file, -template or -short")
	case *i.template != "" && *i.short:
		return c.usagef("-template and -short cannot be used together")
	case *i.list:
		return i.show(ctx, c)
	}
	name := defaultJobFile
	if len(c.args) > 0 {
		name = c.args[0]
	}
	text, err := i.text(ctx, c)
	if err != nil {
		return err
	}
	if err := c.writeNew(name, string(text)); err != nil {
		return err
	}
	p := c.page()
	p.linef("Example job file written to %s", name)
	if err := c.show(p); err != nil {
		return err
	}
	c.suggest("job run " + quoted(name))
	return nil
}

// text returns the job file to write.
func (i jobInit) text(ctx context.Context, c *call) ([]byte, error) {
	switch {
	case *i.short:
		return templates.ReadFile("templates/short.nomad.hcl")
	case *i.template == "":
		return templates.ReadFile("templates/service.nomad.hcl")
	}
	at := *i.template
	if !strings.HasPrefix(at, templatePath) {
		at = templatePath + at
	}
	v, _, err := client.Call(ctx, c.client, op.ReadVariable, op.VariableRef{VarPath: at})
	if err == nil {
		text, ok := v.Items["template"]
		if !ok {
			return nil, berth.Errorf(berth.Invalid, "variable %q has no item \"template\"", at)
		}
		return []byte(text), nil
	}
	text, builtIn := templates.ReadFile("templates/" + path.Base(at) + ".nomad.hcl")
	if builtIn == nil {
		return text, nil // a built-in one needs no agent
	}
	if berth.KindOf(err) == berth.NotFound {
		err = berth.Errorf(berth.NotFound, "unknown template %q: want %s, or the name of a variable below %s", *i.template, strings.Join(builtInTemplates(), ", "), templatePath)
	}
	return nil, err
}

// builtInTemplates returns the names of the built-in templates.
func builtInTemplates() (out []string) {
	files, _ := fs.Glob(templates, "templates/*")
	for _, f := range files {
		out = append(out, strings.TrimSuffix(path.Base(f), ".nomad.hcl"))
	}
	return out
}

// show lists the templates. Those of the cluster are left out if it cannot be
// asked.
func (i jobInit) show(ctx context.Context, c *call) error {
	rows := [][]string{{"Template", "From"}}
	list, _, err := client.Call(ctx, c.client, op.ListVariables, op.Query{Prefix: templatePath})
	if err != nil {
		fmt.Fprintf(c.Err, "The templates of the cluster are not listed: %s\n", clean(c.config.advise(err).Error()))
	}
	for _, v := range list {
		rows = append(rows, []string{strings.TrimPrefix(v.Path, templatePath), "variable " + v.Path})
	}
	for _, name := range builtInTemplates() {
		if !slices.ContainsFunc(list, func(v op.VariableStub) bool { return v.Path == templatePath+name }) {
			rows = append(rows, []string{name, "built in"})
		}
	}
	p := c.page()
	p.table(rows)
	return c.show(p)
}
