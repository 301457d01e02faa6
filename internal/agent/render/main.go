package render

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/consul-template/config"
	dep "github.com/hashicorp/consul-template/dependency"
	"github.com/hashicorp/consul-template/template"
	"github.com/hashicorp/nomad/api"

	"berth/internal/agent/isolate"
	"berth/internal/templating"
)

// Main is the process that renders. It returns its exit status.
func Main() int {
	err := isolate.Helped()
	if err == nil {
		log.SetOutput(io.Discard) // of the library: it would tell values
		_ = time.Now().Local().String()
		err = isolate.OnlyCompute()
	}
	var r Request
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&r)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(all(&r))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// all renders each template of a request.
func all(r *Request) []Result {
	brain := template.NewBrain()
	for key, v := range r.Values {
		if v.Missing && v.Kind != VarExists {
			continue // the library calls it missing, as we do
		}
		brain.ForceSet(key, v.native())
	}
	out := make([]Result, len(r.Templates))
	for i := range r.Templates {
		out[i] = one(r, &r.Templates[i], brain)
	}
	return out
}

// one renders a template.
func one(r *Request, t *Template, brain *template.Brain) (out Result) {
	defer func() {
		if p := recover(); p != nil {
			out = Result{Err: fmt.Sprintf("it cannot be rendered: %v", p)}
		}
	}()
	if t.Text == "" {
		return Result{}
	}
	if err := templating.Check(t.Text, t.Left, t.Right); err != nil {
		return Result{Err: err.Error()}
	}
	tmpl, err := template.NewTemplate(&template.NewTemplateInput{
		Contents: t.Text, LeftDelim: t.Left, RightDelim: t.Right, ErrMissingKey: t.Strict, FunctionDenylist: append(templating.Refused(), r.Deny...),
		ExtFuncMap: map[string]any{
			"env": func(name string) string { return lookup(r.Env, name) },
			"mustEnv": func(name string) (string, error) {
				v := lookup(r.Env, name)
				if v == "" {
					return "", fmt.Errorf("environment variable %q is not set", name)
				}
				return v, nil
			},
			"envOrDefault": func(name, otherwise string) string {
				if v := lookup(r.Env, name); v != "" {
					return v
				}
				return otherwise
			},
		},
	})
	if err != nil {
		return Result{Err: err.Error()}
	}
	res, err := tmpl.Execute(&template.ExecuteInput{Brain: brain, Env: r.Env, Config: configOf(r.Namespace)})
	if err != nil {
		return Result{Err: err.Error()}
	}
	if len(res.Output) > MaxOutput {
		return Result{Err: fmt.Sprintf("the output has %d bytes, at most %d are allowed", len(res.Output), MaxOutput)}
	}
	return Result{Output: res.Output, Used: needs(res.Used), Missing: needs(res.Missing)}
}

// lookup returns a variable of an environment. The process's own is not looked
// at: it is the agent's.
func lookup(env []string, name string) string {
	for _, kv := range env {
		if k, v, _ := strings.Cut(kv, "="); k == name {
			return v
		}
	}
	return ""
}

// native returns a value as the library's functions expect it.
func (v *Value) native() any {
	switch v.Kind {
	case Var, VarExists:
		if v.Missing || v.Variable == nil {
			return nil
		}
		x := v.Variable
		return &dep.NewNomadVariable(&api.Variable{
			Namespace: x.Namespace, Path: x.Path, CreateIndex: x.CreateIndex, ModifyIndex: x.ModifyIndex, CreateTime: x.CreateTime, ModifyTime: x.ModifyTime, Items: x.Items,
		}).Items
	case VarList:
		out := []*dep.NomadVarMeta{}
		for _, x := range v.Variables {
			out = append(out, dep.NewNomadVarMeta(&api.VariableMetadata{
				Namespace: x.Namespace, Path: x.Path, CreateIndex: x.CreateIndex, ModifyIndex: x.ModifyIndex, CreateTime: x.CreateTime, ModifyTime: x.ModifyTime,
			}))
		}
		return out
	case Service:
		out := []*dep.NomadService{}
		for _, x := range v.Instances {
			out = append(out, &dep.NomadService{
				ID: x.ID, Name: x.Name, Node: x.Node, Address: x.Address, Port: x.Port, Datacenter: x.Datacenter, Tags: dep.ServiceTags(x.Tags), JobID: x.JobID, AllocID: x.AllocID,
			})
		}
		return out
	case Services:
		out := []*dep.NomadServicesSnippet{}
		for _, x := range v.Services {
			out = append(out, &dep.NomadServicesSnippet{Name: x.Name, Tags: dep.ServiceTags(x.Tags)})
		}
		return out
	}
	return v.Text
}

// needs describes what a template asked for.
func needs(set *dep.Set) (out []Need) {
	for _, d := range set.List() {
		out = append(out, need(d))
	}
	return out
}

// need describes a dependency of the library by the text that it gives of
// itself, which is also its key in the library.
func need(d dep.Dependency) Need {
	key := d.String()
	_, inner, _ := strings.Cut(key, "(")
	inner = strings.TrimSuffix(inner, ")")
	n := Need{Key: key}
	switch d.(type) {
	case *dep.NVGetQuery:
		n.Kind = VarExists
		if strings.HasPrefix(key, "nomad.var.block(") {
			n.Kind = Var
		}
		n.Name, n.Namespace, n.Region = spacedName(inner)
	case *dep.NVListQuery:
		n.Kind = VarList
		n.Name, n.Namespace, n.Region = spacedName(inner)
	case *dep.NomadServiceQuery:
		n.Kind = Service
		inner, n.Choose, _ = strings.Cut(inner, ":")
		inner, n.Region, _ = strings.Cut(inner, "@")
		n.Name = inner
		if i := strings.LastIndex(inner, "."); i >= 0 {
			n.Tag, n.Name = inner[:i], inner[i+1:]
		}
	case *dep.NomadServicesQuery:
		n.Kind, n.Region = Services, strings.TrimPrefix(inner, "@")
	case *dep.FileQuery:
		n.Kind, n.Name = File, inner
	default:
		n.Kind, n.Name = Other, key
	}
	return n
}

// spacedName splits path@namespace.region.
func spacedName(s string) (path, namespace, region string) {
	i := strings.LastIndex(s, "@")
	if i < 0 {
		return s, "", ""
	}
	path = s[:i]
	namespace, region, _ = strings.Cut(s[i+1:], ".")
	return path, namespace, region
}

// configOf returns the library's configuration, of which it only uses the
// namespace.
func configOf(namespace string) *config.Config {
	c := config.DefaultConfig()
	c.Nomad.Namespace = &namespace
	return c
}
