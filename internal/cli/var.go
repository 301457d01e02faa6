package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/internal/validate"
	"berth/jobspec"
	"berth/op"
)

// varOutput are the flags for the output of a variable.
type varOutput struct {
	out, template *string
}

// varOutput declares -out and -template.
func (f *flags) varOutput(byDefault string) varOutput {
	return varOutput{
		f.FlagSet.String("out", byDefault, "The `format`: table, json, hcl, go-template or none."),
		f.String("template", "The Go `template` for -out go-template."),
	}
}

// check refuses flags that do not fit each other.
func (o varOutput) check(c *call) error {
	switch *o.out {
	case "table", "json", "hcl", "none":
		if *o.template != "" {
			return c.usagef("-template needs -out go-template")
		}
	case "go-template":
		if *o.template == "" {
			return c.usagef("-out go-template needs -template")
		}
	default:
		return c.usagef("flag -out must be table, json, hcl, go-template or none, got %q", *o.out)
	}
	return nil
}

// show prints a variable.
func (o varOutput) show(c *call, v *op.Variable) error {
	switch *o.out {
	case "none":
		return nil
	case "json":
		return c.json(v)
	case "go-template":
		no := false
		return dataFlags{&no, o.template}.write(c, v)
	case "hcl":
		_, err := io.WriteString(c.Out, varHCL(v))
		return err
	}
	p := c.page()
	kv := []string{
		"Namespace", v.Namespace, "Path", v.Path, "Create Time", at(v.CreateTime), "Modify Time", at(v.ModifyTime), "Check Index", strconv.FormatUint(v.ModifyIndex, 10),
	}
	if v.Lock != nil {
		kv = append(kv, "Lock TTL", v.Lock.TTL, "Lock Delay", v.Lock.LockDelay)
		if v.Lock.ID != "" {
			kv = append(kv, "Lock ID", v.Lock.ID)
		}
	}
	p.pairs(kv...)
	p.heading("Items")
	var items []string
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		items = append(items, k, v.Items[k])
	}
	p.pairs(items...)
	return c.show(p)
}

// varHCL returns a variable as a specification.
func varHCL(v *op.Variable) string {
	var b strings.Builder
	fmt.Fprintf(&b, "namespace    = %s\npath         = %s\nmodify_index = %d\n\nitems = {\n", quoteHCL(v.Namespace), quoteHCL(v.Path), v.ModifyIndex)
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		fmt.Fprintf(&b, "  %s = %s\n", quoteHCL(k), quoteHCL(v.Items[k]))
	}
	return b.String() + "}\n"
}

// quoteHCL returns a text as HCL writes it.
func quoteHCL(s string) string {
	s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "${", "$${", "%{", "%%{").Replace(s)
	return `"` + s + `"`
}

// varGetCommand shows a variable, or one of its items.
func varGetCommand() *command {
	return &command{
		name: "var get", args: "<path>", synopsis: "Show a variable", min: 1, max: 1,
		example: "var get secrets/db -item password",
		help:    `Shows a variable with its items. With -item, prints only the value of that item.`,
		setup: func(f *flags) action {
			item := f.String("item", "Print only the value of the item with this `name`.")
			o := f.varOutput("table")
			return func(ctx context.Context, c *call) error {
				if err := o.check(c); err != nil {
					return err
				}
				v, _, err := client.Call(ctx, c.client, op.ReadVariable, op.VariableRef{VarPath: c.args[0]})
				if berth.KindOf(err) == berth.NotFound {
					return berth.Errorf(berth.NotFound, "Variable %q not found; see %q", c.args[0], c.Name+" var list")
				}
				if err != nil {
					return err
				}
				if *item == "" {
					return o.show(c, &v)
				}
				value, ok := v.Items[*item]
				if !ok {
					return berth.Errorf(berth.NotFound, "Variable %q has no item %q; it has: %s", c.args[0], *item, or(strings.Join(slices.Sorted(maps.Keys(v.Items)), ", "), "none"))
				}
				_, err = fmt.Fprintln(c.Out, value)
				return err
			}
		},
	}
}

// varListCommand lists variables by prefix.
func varListCommand() *command {
	return &command{
		name: "var list", args: "[prefix]", synopsis: "List variables", max: 1,
		example: "var list secrets/",
		help:    `Lists the variables whose paths begin with a prefix, without their items.`,
		setup: func(f *flags) action {
			page := f.paging()
			f.webFlag()
			out := f.FlagSet.String("out", "table", "The `format`: table, json, terse or go-template.")
			template := f.String("template", "The Go `template` for -out go-template.")
			return func(ctx context.Context, c *call) error {
				if !slices.Contains([]string{"table", "json", "terse", "go-template"}, *out) {
					return c.usagef("flag -out must be table, json, terse or go-template, got %q", *out)
				}
				if (*out == "go-template") != (*template != "") {
					return c.usagef("-out go-template and -template need each other")
				}
				in := op.Query{}
				if len(c.args) == 1 {
					in.Prefix = c.args[0]
				}
				if err := page.query(c, &in); err != nil {
					return err
				}
				list, meta, err := client.Call(ctx, c.client, op.ListVariables, in)
				if err != nil {
					return err
				}
				c.web(ctx, inSpace("/variables", "namespace", c.config.Namespace))
				return c.showVars(list, meta.NextToken, *out, template)
			}
		},
	}
}

// showVars prints a list of variables.
func (c *call) showVars(list []op.VariableStub, next, format string, template *string) error {
	p := c.page()
	switch {
	case format == "json":
		return c.json(list)
	case format == "go-template":
		no := false
		return dataFlags{&no, template}.write(c, list)
	case format == "terse":
		for _, v := range list {
			p.linef("%s", v.Path)
		}
		return c.show(p)
	case len(list) == 0:
		p.linef("No variables found")
	default:
		rows := [][]string{{"Namespace", "Path", "Last Updated"}}
		for _, v := range list {
			rows = append(rows, []string{v.Namespace, v.Path, at(v.ModifyTime)})
		}
		p.table(rows)
	}
	c.paged(p, next)
	return c.show(p)
}

// varPurgeCommand deletes a variable.
func varPurgeCommand() *command {
	return &command{
		name: "var purge", args: "<path>", synopsis: "Delete a variable", min: 1, max: 1,
		example: "var purge secrets/db",
		help:    `Deletes a variable for good.`,
		setup: func(f *flags) action {
			check := f.String("check-index", "Delete the variable only if its modify `index` is this.")
			return func(ctx context.Context, c *call) error {
				in := op.DeleteVariable{VarPath: c.args[0]}
				if *check != "" {
					n, err := strconv.ParseUint(*check, 10, 64)
					if err != nil {
						return c.usagef("flag -check-index must be an integer of at least 0, got %q", *check)
					}
					in.CAS = &n
				}
				out, _, err := client.Call(ctx, c.client, op.RemoveVariable, in)
				if err != nil {
					return err
				}
				if out.Conflict {
					return c.conflict(in.CAS, &out, false)
				}
				_, err = fmt.Fprintf(c.Out, "Successfully purged variable %q!\n", c.args[0])
				return err
			}
		},
	}
}

// conflict is the error of a write that met another variable than its caller
// expected.
func (c *call) conflict(cas *uint64, met *op.VariableWritten, canForce bool) error {
	switch {
	case met.Lock != nil:
		return berth.Errorf(berth.Conflict, "Variable %q is locked; nothing was changed", met.Path)
	case cas == nil:
		return berth.Errorf(berth.Conflict, "The lock on variable %q is not held; nothing was changed", met.Path)
	case met.ModifyIndex == 0:
		return berth.Errorf(berth.Conflict, "Check-and-set failed: expected variable %q at index %d, and it does not exist", met.Path, *cas)
	}
	hint := ""
	if canForce {
		hint = "; -force overwrites it"
	}
	return berth.Errorf(berth.Conflict, "Check-and-set failed: expected variable %q at index %d, and its index is %d%s", met.Path, *cas, met.ModifyIndex, hint)
}

// exampleVars are the example files by format.
var exampleVars = map[string]string{
	"hcl": `# The path of the variable; an argument of "var put" can replace it.
path = "path/to/variable"

# The namespace; the flag -namespace can replace it.
# namespace = "default"

# What is encrypted: names and values.
items {
  user     = "example"
  password = "change me"
}
`,
	"json": `{
  "Path": "path/to/variable",
  "Items": {
    "user": "example",
    "password": "change me"
  }
}
`,
}

// varSpec reads the arguments of a command that writes a variable: a path, or
// @file, or - for standard input, and key=value pairs. A path before @file or
// with -in replaces that of the specification.
func (c *call) varSpec(args []string) (v *jobspec.VariableSpec, err error) {
	v = &jobspec.VariableSpec{Items: map[string]string{}}
	path, from := "", ""
	for len(args) > 0 && !strings.Contains(args[0], "=") && len(path)*len(from) == 0 {
		switch a := args[0]; {
		case from == "" && (a == "-" || strings.HasPrefix(a, "@") && len(a) > 1):
			from = strings.TrimPrefix(a, "@")
		case path == "":
			path = a
		default:
			return nil, c.usagef("%q is not of the form key=value", a)
		}
		args = args[1:]
	}
	if from != "" {
		if v, err = readSpec(c, from, "variable", false, jobspec.ParseVariable); err != nil {
			return nil, err
		}
		if v.Items == nil {
			v.Items = map[string]string{}
		}
	}
	for _, a := range args {
		k, value, ok := strings.Cut(a, "=")
		if !ok || k == "" {
			return nil, c.usagef("%q is not of the form key=value", a)
		}
		if v.Items[k], err = c.varValue(value); err != nil {
			return nil, err
		}
	}
	if path != "" {
		v.Path = path
	}
	return v, nil
}

// varValue returns the value of an argument key=value: @file is the content of
// a file, and \@ a value that begins with an @.
func (c *call) varValue(s string) (string, error) {
	switch {
	case strings.HasPrefix(s, `\@`):
		return s[1:], nil
	case strings.HasPrefix(s, "@"):
		file, _, err := c.readFile(s[1:], "value")
		return string(file.Text), err
	}
	return s, nil
}

// varPutCommand writes a variable.
func varPutCommand() *command {
	return &command{
		name: "var put", args: "<path | @file | -> [key=value ...]", synopsis: "Create or update a variable", min: 1, max: -1,
		example: "var put secrets/db user=app password=@password.txt",
		help: `Writes a variable. Its items are pairs key=value, and those of a specification in HCL or JSON: from @file, or with "-" from
			standard input. A value @file is the content of that file; a value that begins with an @ is written \@. "var init" writes an
			example of a specification.

			A variable that exists is replaced only if -check-index or the specification has its modify index, or with -force.`,
		setup: func(f *flags) action {
			check := f.String("check-index", "Write the variable only if its modify `index` is this; 0: only if it does not exist.")
			force := f.Bool("force", "Replace the variable whatever its index.")
			in := f.String("in", "The `format` of a specification: hcl or json. Without this flag, both are accepted.")
			f.Bool("verbose", "Accepted; there is nothing more to print.")
			f.webFlag()
			o := f.varOutput("none")
			return func(ctx context.Context, c *call) error {
				if err := o.check(c); err != nil {
					return err
				}
				if *in != "" && *in != "hcl" && *in != "json" {
					return c.usagef("flag -in must be hcl or json, got %q", *in)
				}
				v, err := c.varSpec(c.args)
				if err != nil {
					return err
				}
				w := op.WriteVariable{VarPath: v.Path, Items: v.Items}
				w.Namespace = v.Namespace
				cas := v.ModifyIndex
				if *check != "" {
					if cas, err = strconv.ParseUint(*check, 10, 64); err != nil || *force {
						return c.usagef("flag -check-index must be an integer, and cannot be used with -force")
					}
				}
				if !*force {
					w.CAS = &cas
				}
				if err := validate.VariablePath(strings.Trim(v.Path, "/ ")); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.PutVariable, w)
				if err != nil {
					return err
				}
				if out.Conflict {
					return c.conflict(w.CAS, &out, true)
				}
				c.web(ctx, inSpace(uiPage("variable", out.Path), "ns", out.Namespace))
				if *o.out == "none" {
					_, err = fmt.Fprintf(c.Out, "Created variable %q with modify index %d\n", out.Path, out.ModifyIndex)
					return err
				}
				return o.show(c, &out.Variable)
			}
		},
	}
}
