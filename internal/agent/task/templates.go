package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/render"
	"berth/internal/failpoint"
	"berth/op"
)

// renderTemplates renders the templates of the task and writes them where it
// wants them. As long as something is not there that one of them needs, it waits
// and says for what.
func renderTemplates(ctx context.Context, at *attempt) error {
	if len(at.task.Templates) == 0 {
		return nil
	}
	r, err := newRenderer(at)
	if err != nil {
		return &eventError{berth.EventTemplate, err}
	}
	for {
		missing, err := r.render(ctx)
		if err != nil {
			return &eventError{berth.EventTemplate, err}
		}
		if len(missing) == 0 {
			break
		}
		var names []string
		for _, w := range missing {
			names = append(names, w.String())
		}
		at.doing(berth.EventTemplate, "Missing: "+strings.Join(names, ", "), missing...)
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	_ = failpoint.Hit("template/rendered")
	for i := range r.texts {
		if err := at.writeTemplate(i, r.output[i]); err != nil {
			return &eventError{berth.EventTemplate, err}
		}
		if !at.task.Templates[i].Envvars {
			continue
		}
		env, err := parseEnv(string(r.output[i]))
		if err != nil {
			return &eventError{berth.EventTemplate, berth.Errorf(berth.Invalid, "template[%d]: with env = true: %w", i, err)}
		}
		at.names.Env = maps.Clone(at.names.Env)
		maps.Copy(at.names.Env, env)
		at.out.Env = list(at.names.Env)
	}
	at.rendered = r.hashes()
	_ = failpoint.Hit("template/written")
	return nil
}

// renderer renders the templates of a task.
type renderer struct {
	at     *attempt
	texts  []render.Template
	env    []string
	output [][]byte

	needs  []render.Need // what the templates used so far, each once
	values map[string]render.Value
	index  uint64 // of the newest answer of servers
	mark   string
}

// newRenderer reads the templates.
func newRenderer(at *attempt) (*renderer, error) {
	r := &renderer{at: at, env: list(at.names.Env), values: map[string]render.Value{}}
	for i, t := range at.task.Templates {
		text := t.EmbeddedTmpl
		if t.SourcePath != "" {
			p, err := at.inside("template.source", t.SourcePath)
			if err != nil {
				return nil, err
			}
			b, err := at.out.AllocDir.ReadFile(p, render.MaxText)
			if err != nil {
				return nil, driver.Recoverable(berth.Errorf(berth.Invalid, "template[%d].source: %w", i, err))
			}
			text = string(b)
		}
		if _, err := at.inside("template.destination", t.DestPath); err != nil {
			return nil, err
		}
		r.texts = append(r.texts, render.Template{Text: text, Left: t.LeftDelim, Right: t.RightDelim, Strict: t.ErrMissingKey})
	}
	return r, nil
}

// mostRounds bounds how often a rendering can find that it wants to know more.
const mostRounds = 50

// render renders all templates with what is known, and gets what they want to
// know beside. It returns what is missing; if nothing is, output has the texts.
func (r *renderer) render(ctx context.Context) (missing []berth.TaskWait, err error) {
	for range mostRounds {
		results, err := render.Run(ctx, r.at.inputs.Command, &render.Request{
			Templates: r.texts, Namespace: r.at.alloc.Job.Namespace, Env: r.env, Values: r.values, Deny: r.at.inputs.Deny,
		})
		if berth.KindOf(err) == berth.Unavailable {
			return nil, driver.Recoverable(err)
		} else if err != nil {
			return nil, err
		}
		news := false
		missing, r.output = nil, nil
		for i, x := range results {
			if x.Err != "" {
				return nil, driver.Recoverable(berth.Errorf(berth.Invalid, "template[%d]: %s", i, x.Err))
			}
			for _, n := range x.Used {
				if n.Kind == render.Other {
					return nil, berth.Errorf(berth.Invalid, "template[%d]: %s is not supported", i, n.Name)
				}
				if n.Region != "" && n.Region != r.at.place.Region && n.Region != berth.DefaultRegion {
					return nil, berth.Errorf(berth.Invalid, "template[%d]: region %q: values of other regions are not supported", i, n.Region)
				}
				if !slices.Contains(r.needs, n) {
					r.needs, news = append(r.needs, n), true
				}
			}
			for _, n := range x.Missing {
				missing = append(missing, berth.TaskWait{Kind: n.Kind, Name: n.Name})
			}
			r.output = append(r.output, x.Output)
		}
		if !news {
			return missing, nil
		}
		if err := r.fetch(ctx, false); err != nil {
			return nil, err
		}
	}
	return nil, berth.Errorf(berth.Invalid, "template: wants to know something new after %d rounds", mostRounds)
}

// want says how servers are asked for a need; ok is false for what is not
// theirs.
func want(n *render.Need) (w op.Want, ok bool) {
	w = op.Want{Name: n.Name, Namespace: n.Namespace, Tag: n.Tag, Choose: n.Choose}
	switch n.Kind {
	case render.Var, render.VarExists:
		w.Kind = op.WantVariable
	case render.VarList:
		w.Kind = op.WantVariables
	case render.Service:
		w.Kind = op.WantService
	case render.Services:
		w.Kind = op.WantServices
	default:
		return w, false
	}
	return w, true
}

// filePoll is how often files are looked at that a template shows.
const filePoll = 5 * time.Second

// fetch gets what the templates need: what there is now or, to wait, once it has
// changed.
func (r *renderer) fetch(ctx context.Context, wait bool) error {
	q := op.WantsQuery{}
	var asked []render.Need
	files := false
	for _, n := range r.needs {
		if w, ok := want(&n); ok {
			q.Wants, asked = append(q.Wants, w), append(asked, n)
		} else if n.Kind == render.File {
			files = true
		}
	}
	if wait {
		q.Have, q.MinQueryIndex = r.mark, r.index
		if files {
			q.MaxQueryTime = filePoll
		}
	}
	if len(q.Wants) > 0 {
		out, err := r.at.ask(ctx, q)
		if err != nil {
			return err
		}
		for i, v := range out.Values {
			r.values[asked[i].Key] = valueOf(&asked[i], &v)
		}
		r.index, r.mark = max(1, out.Index), out.Mark
	} else if wait {
		pause := time.NewTimer(filePoll)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, n := range r.needs {
		if n.Kind == render.File {
			v, err := r.file(n.Name)
			if err != nil {
				return err
			}
			r.values[n.Key] = v
		}
	}
	return nil
}

// wait waits until something that the templates need may be different.
func (r *renderer) wait(ctx context.Context) error { return r.fetch(ctx, true) }

// file reads a file below the task's directory, or the one that its allocation
// shares.
func (r *renderer) file(name string) (render.Value, error) {
	v := render.Value{Kind: render.File}
	p, err := r.at.inside("template: file", name)
	if err != nil {
		return v, err
	}
	b, err := r.at.out.AllocDir.ReadFile(p, render.MaxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.Missing = true
		return v, nil
	case err != nil:
		return v, berth.Errorf(berth.Invalid, "template: file %q: %w", name, err)
	}
	v.Text = string(b)
	return v, nil
}

// valueOf returns what servers answered as the renderer takes it.
func valueOf(n *render.Need, v *op.Wanted) render.Value {
	out := render.Value{Kind: n.Kind, Missing: v.Missing}
	for _, x := range v.Variables {
		out.Variables = append(out.Variables, render.VariableValue{
			Namespace: x.Namespace, Path: x.Path, CreateIndex: x.CreateIndex, ModifyIndex: x.ModifyIndex, CreateTime: x.CreateTime, ModifyTime: x.ModifyTime, Items: x.Items,
		})
	}
	if (n.Kind == render.Var || n.Kind == render.VarExists) && len(out.Variables) == 1 {
		out.Variable, out.Variables = &out.Variables[0], nil
	}
	for _, x := range v.Instances {
		out.Instances = append(out.Instances, render.InstanceValue{
			ID: x.ID, Name: x.ServiceName, Node: x.NodeID.String(), Address: x.Address, Port: x.Port, Datacenter: x.Datacenter, Tags: x.Tags, JobID: string(x.JobID), AllocID: x.AllocID.String(),
		})
	}
	// As with Nomad, a service without instances is no reason to wait.
	for _, x := range v.Services {
		out.Services = append(out.Services, render.ServiceValue{Name: x.ServiceName, Tags: x.Tags})
	}
	return out
}

// hashes returns the hashes of the texts.
func (r *renderer) hashes() (out []string) {
	for _, b := range r.output {
		sum := sha256.Sum256(b)
		out = append(out, hex.EncodeToString(sum[:8]))
	}
	return out
}

// writeTemplate writes a text to its destination.
func (at *attempt) writeTemplate(i int, text []byte) error {
	t := &at.task.Templates[i]
	p, err := at.inside("template.destination", t.DestPath)
	if err != nil {
		return err
	}
	perm, err := strconv.ParseUint(t.Perms, 8, 32)
	if t.Perms == "" {
		perm, err = 0o644, nil
	}
	if err != nil || perm > 0o777 {
		return berth.Errorf(berth.Invalid, "template.perms: must be octal digits such as 0644, got %q", t.Perms)
	}
	root := at.out.AllocDir
	if dir := path.Dir(p); dir != at.task.Name && dir != "alloc" {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return onDisk(err)
		}
	}
	if old, err := root.ReadFile(p, render.MaxOutput); err != nil || string(old) != string(text) {
		if err := root.Replace(p, text, fs.FileMode(perm)); err != nil {
			return onDisk(err)
		}
	}
	uid, gid, other := lookupUser(at.out.User)
	if at.ofImage() {
		other = false
	}
	if !other {
		uid, gid = -1, -1
	}
	if t.Uid != nil && *t.Uid >= 0 {
		uid = *t.Uid
	}
	if t.Gid != nil && *t.Gid >= 0 {
		gid = *t.Gid
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return berth.Errorf(berth.Invalid, "template.uid: this agent does not run as root and cannot give files away")
	}
	return onDisk(root.Chown(p, uid, gid))
}

// parseEnv reads lines of the form KEY=value, as files of environment variables
// have it: with comments, and values that may be in quotes.
func parseEnv(text string) (map[string]string, error) {
	out := map[string]string{}
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		k, v, ok := strings.Cut(line, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" || strings.ContainsFunc(k, func(r rune) bool {
			return !(r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
		}) {
			return nil, berth.Errorf(berth.Invalid, "line %d: must be of the form KEY=value", n+1)
		}
		if strings.ContainsRune(v, 0) {
			return nil, berth.Errorf(berth.Invalid, "line %d: the value of %s has a zero byte", n+1, k)
		}
		if v != "" {
			switch q := v[0]; {
			case q == '\'' && len(v) > 1 && v[len(v)-1] == '\'':
				v = v[1 : len(v)-1]
			case q == '"':
				s, err := strconv.Unquote(v)
				if err != nil {
					return nil, berth.Errorf(berth.Invalid, "line %d: the value of %s is not closed by a quote, or has an unknown escape", n+1, k)
				}
				v = s
			default:
				if i := strings.Index(v, " #"); i >= 0 {
					v = strings.TrimSpace(v[:i])
				}
			}
		}
		out[k] = v
	}
	return out, nil
}
