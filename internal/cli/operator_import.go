package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth"
	"berth/client"
	"berth/internal/decode"
	"berth/internal/diff"
	"berth/jobspec"
	"berth/op"
)

// operatorImportCommand registers what another cluster or a directory has.
func operatorImportCommand() *command {
	return &command{
		name: "operator import", args: "[path...]", synopsis: "Register the jobs of another cluster, or of files", max: -1,
		example: "operator import -from http://nomad.example.com:4646 -dry-run",
		help: `Reads namespaces, node pools, variables and jobs of a running Nomad or Berth cluster with -from, or job files and specifications of variables
			from files and directories, and registers them in the cluster that is called. Of the other cluster it only reads, through its
			public HTTP API. Of a directory it takes the files that end in .nomad, .hcl and .json, and of those the ones that end in
			.nv.hcl and .nv.json as variables.

			With -dry-run nothing is changed. For each job it tells if it is new, what of it would change, and what stands in its way,
			such as blocks that are not supported. Values of variables are never printed.

			Jobs that were stopped, and those that dispatched or periodic jobs launched, are left out. A variable that exists with other items
			is replaced only with -force. Access control, quotas, volumes and the state of allocations are not taken over: tasks start again here, so stop
			a job there when it runs here.

			The exit code is 0 if everything was taken over or could be, and 1 otherwise.`,
		setup: func(f *flags) action {
			i := &importing{
				from: f.String("from", "The `address` of the cluster to read."), token: f.String("from-token", "The secret ID of the `token` for the cluster to read. Other users of this machine can see it in the process list; $BERTH_IMPORT_TOKEN does the same."),
				ca:  f.String("from-ca-cert", "The `file` with the certificate authority of the cluster to read."),
				dry: f.Bool("dry-run", "Change nothing, and say what would be done."), force: f.Bool("force", "Replace variables that exist with other items."),
				only: f.FlagSet.String("from-namespace", "*", "With -from: read only this `namespace`."), file: f.jobFile(),
			}
			return i.run
		},
	}
}

// importing is one run of "operator import".
type importing struct {
	from, token, ca, only *string
	dry, force            *bool
	file                  jobFileFlags

	call   *call
	other  *client.Client // nil: files are read
	spaces map[string]bool
	failed int
}

// run takes everything over, in the order in which one thing needs another.
func (i *importing) run(ctx context.Context, c *call) error {
	i.call = c
	switch {
	case (*i.from == "") == (len(c.args) == 0):
		return c.usagef("say what to read: either -from or files and directories")
	case *i.from != "":
		token := *i.token
		if v, _ := c.env("IMPORT_TOKEN"); token == "" {
			token = v
		}
		var err error
		if i.other, err = client.New(client.Config{Address: withScheme(*i.from), Token: token, TLS: client.TLS{CACert: *i.ca}}); err != nil {
			return err
		}
		defer i.other.Close()
		if i.other.Address() == c.client.Address() {
			return c.usagef("-from and the cluster to write to are the same: %s", *i.from)
		}
	}
	list, _, err := client.Call(ctx, c.client, op.ListNamespaces, op.Query{})
	if err != nil {
		return err
	}
	i.spaces = map[string]bool{}
	for _, n := range list {
		i.spaces[n.Name] = true
	}
	if i.other != nil {
		err = i.cluster(ctx)
	} else {
		err = i.files(ctx)
	}
	if err != nil {
		return err
	}
	if i.failed > 0 {
		fmt.Fprintf(c.Err, "%s could not be taken over\n", plural(i.failed, "object"))
		return exit(exitError)
	}
	return nil
}

// say prints what became of an object, or would. An error counts, and its
// problems follow as lines of their own.
func (i *importing) say(what, done, would string, err error) {
	if *i.dry {
		done = would
	}
	if err != nil {
		i.failed++
		done = "cannot be taken over:"
		for line := range strings.Lines(err.Error()) {
			done += "\n    " + strings.TrimSpace(line)
		}
	}
	fmt.Fprintln(i.call.Out, cleanLines(what+": "+done))
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// read reads from the other cluster.
func (i *importing) read(ctx context.Context, path string, into any) error {
	b := &bundle{call: &call{client: i.other}}
	text, err := b.read(ctx, path, false)
	if err != nil {
		// Not the error itself: it is not about the agent that this command calls.
		return berth.Errorf(berth.KindOf(err), "read %s: %s", *i.from, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return berth.Errorf(berth.Invalid, "the answer of %s to %s is not what a cluster answers: %w", *i.from, path, err)
	}
	return nil
}

// cluster takes over another cluster.
func (i *importing) cluster(ctx context.Context) error {
	if err := i.namespaces(ctx); err != nil {
		return err
	}
	if err := i.pools(ctx); err != nil {
		return err
	}
	var vars []struct{ Namespace, Path string }
	if err := i.read(ctx, "/v1/vars?namespace="+url.QueryEscape(*i.only), &vars); err != nil {
		return err
	}
	for _, v := range vars {
		var full jobspec.VariableSpec
		if err := i.read(ctx, "/v1/var/"+escapePath(v.Path)+"?namespace="+url.QueryEscape(v.Namespace), &full); err != nil {
			i.say(fmt.Sprintf("Variable %q in namespace %q", v.Path, v.Namespace), "", "", err)
			continue
		}
		i.variable(ctx, &full)
	}
	var jobs []struct {
		ID, Namespace, ParentID string
		Stop                    bool
	}
	if err := i.read(ctx, "/v1/jobs?namespace="+url.QueryEscape(*i.only), &jobs); err != nil {
		return err
	}
	for _, j := range jobs {
		what := fmt.Sprintf("Job %q in namespace %q", j.ID, j.Namespace)
		if j.ParentID != "" {
			continue
		}
		if j.Stop {
			i.say(what, "left out, because it was stopped", "would be left out, because it was stopped", nil)
			continue
		}
		var raw json.RawMessage
		err := i.read(ctx, "/v1/job/"+url.PathEscape(j.ID)+"?namespace="+url.QueryEscape(j.Namespace), &raw)
		var tree decode.Tree
		if err == nil {
			tree, err = decode.ParseJSON(raw)
		}
		if err != nil {
			i.say(what, "", "", err)
			continue
		}
		source := i.submission(ctx, j.ID, j.Namespace, tree["Version"])
		for _, name := range ofTheServers {
			delete(tree, name)
		}
		i.job(ctx, what, j.ID, j.Namespace, decode.RawTree(tree), source)
	}
	return nil
}

// ofTheServers are the fields of a job that its servers set.
var ofTheServers = []string{
	"Region", "Stop", "Stable", "VersionTag", "SubmitTime", "CreateIndex", "ModifyIndex", "JobModifyIndex", "UID", "Status", "StatusDescription", "ConsulToken", "VaultToken", "NomadTokenID", "Dispatched", "Version",
}

// submission returns the source of a job, nil if the other cluster does not have
// it any more.
func (i *importing) submission(ctx context.Context, id, namespace string, version any) *berth.JobSubmission {
	var s berth.JobSubmission
	err := i.read(ctx, fmt.Sprintf("/v1/job/%s/submission?version=%v&namespace=%s", url.PathEscape(id), version, url.QueryEscape(namespace)), &s)
	if err != nil || s.Source == "" {
		return nil
	}
	return &berth.JobSubmission{Source: s.Source, Format: s.Format, VariableFlags: s.VariableFlags, Variables: s.Variables}
}

// escapePath escapes the parts of a path.
func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// namespaces takes over the namespaces that are not there.
func (i *importing) namespaces(ctx context.Context) error {
	var list []*berth.Namespace
	if err := i.read(ctx, "/v1/namespaces", &list); err != nil {
		return err
	}
	for _, n := range list {
		if i.spaces[n.Name] || *i.only != berth.AllNamespaces && n.Name != *i.only {
			continue
		}
		var err error
		if !*i.dry {
			if _, _, err = client.Call(ctx, i.call.client, op.CreateNamespace, op.WriteNamespace{Namespace: *n}); err == nil {
				i.spaces[n.Name] = true
			}
		}
		i.say(fmt.Sprintf("Namespace %q", n.Name), "created", "would be created", err)
	}
	return nil
}

// pools takes over the node pools that are not there. A cluster that is too old to
// have any has none.
func (i *importing) pools(ctx context.Context) error {
	var list []*struct {
		berth.NodePool
		NodeIdentityTTL any // a number or a text, which is left to the servers here
	}
	if err := i.read(ctx, "/v1/node/pools", &list); err != nil {
		if berth.KindOf(err) == berth.NotFound {
			return nil
		}
		return err
	}
	for _, p := range list {
		_, _, err := client.Call(ctx, i.call.client, op.ReadPool, op.PoolRef{PoolName: p.Name})
		if berth.KindOf(err) != berth.NotFound {
			if err != nil {
				i.say(fmt.Sprintf("Node pool %q", p.Name), "", "", err)
			}
			continue
		}
		err = nil
		if !*i.dry {
			in := op.WriteNodePool{NodePool: p.NodePool}
			_, _, err = client.Call(ctx, i.call.client, op.WritePool, in)
		}
		i.say(fmt.Sprintf("Node pool %q", p.Name), "created", "would be created", err)
	}
	return nil
}

// variable takes over one variable.
func (i *importing) variable(ctx context.Context, v *jobspec.VariableSpec) {
	v.Namespace = cmp.Or(v.Namespace, i.call.config.space())
	what := fmt.Sprintf("Variable %q in namespace %q", v.Path, v.Namespace)
	old, _, err := client.Call(ctx, i.call.client, op.ReadVariable, op.VariableRef{VarPath: v.Path, Query: op.Query{Namespace: v.Namespace}})
	done, would := "created with "+plural(len(v.Items), "item"), "would be created with "+plural(len(v.Items), "item")
	switch {
	case !i.spaces[v.Namespace] && *i.dry, berth.KindOf(err) == berth.NotFound:
		err = nil
	case err != nil:
	case maps.Equal(old.Items, v.Items):
		i.say(what, "is there already", "is there already", nil)
		return
	case !*i.force:
		err = berth.Errorf(berth.Conflict, "it exists with other items; -force replaces it")
	default:
		done, would = "replaced", "would be replaced"
	}
	if err == nil && !*i.dry {
		in := op.WriteVariable{VarPath: v.Path, Items: v.Items}
		in.Namespace = v.Namespace
		_, _, err = client.Call(ctx, i.call.client, op.PutVariable, in)
	}
	i.say(what, done, would, err)
}

// job takes over one job. What the servers refuse is told as they say it.
func (i *importing) job(ctx context.Context, what, id, namespace string, tree decode.RawTree, submission *berth.JobSubmission) {
	w := op.Write{Namespace: namespace}
	if *i.dry && !i.spaces[namespace] { // it would be created first, and the job is checked as if in another
		tree = maps.Clone(tree)
		tree["Namespace"], w.Namespace = berth.DefaultNamespace, berth.DefaultNamespace
		out, _, err := client.Call(ctx, i.call.client, op.Validate, op.ValidateJob{Job: tree, Write: w})
		if err == nil && len(out.ValidationErrors) > 0 {
			err = berth.Errorf(berth.Invalid, "%s", strings.Join(out.ValidationErrors, "\n"))
		}
		i.say(what, "", "would be registered"+noted(out.Warnings), err)
		return
	}
	plan, _, err := client.Call(ctx, i.call.client, op.Plan, op.PlanJob{JobID: id, Job: tree, Diff: true, Write: w})
	if err != nil {
		i.say(what, "", "", err)
		return
	}
	done, would := "registered", "would be registered"
	switch {
	case plan.JobModifyIndex > 0 && plan.Diff != nil && plan.Diff.Type == diff.None:
		i.say(what, "is there already", "is there already", nil)
		return
	case plan.JobModifyIndex > 0:
		done, would = "updated", "would be updated:"
		if *i.dry && plan.Diff != nil {
			for _, l := range diffLines(plan.Diff, false) {
				would += "\n    " + l
			}
		}
	}
	if *i.dry {
		for _, g := range failedGroups(&op.Eval{FailedTGAllocs: plan.FailedTGAllocs}) {
			would += "\n    would wait: " + g.head
			for _, l := range g.lines {
				would += "\n      " + l
			}
		}
		would += noted(plan.Warnings)
	} else {
		var out op.JobRegistered
		if out, _, err = client.Call(ctx, i.call.client, op.Register, op.RegisterJob{Job: tree, Submission: submission, Write: w}); err == nil {
			done += noted(out.Warnings)
		}
	}
	i.say(what, done, would, err)
}

// noted returns warnings as lines below that of an object.
func noted(warnings string) (out string) {
	for line := range strings.Lines(warnings) {
		if line = strings.TrimSpace(line); line != "" {
			out += "\n    warning: " + line
		}
	}
	return out
}

// files takes over files, variables first.
func (i *importing) files(ctx context.Context) error {
	var vars, jobs []string
	for _, arg := range i.call.args {
		info, err := os.Stat(i.call.path(arg))
		if err != nil {
			return berth.Errorf(berth.Invalid, "read %s: %w", arg, causeOf(err))
		}
		err = filepath.WalkDir(i.call.path(arg), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if rel, err := filepath.Rel(i.call.path(arg), path); err == nil && info.IsDir() {
				path = filepath.Join(arg, rel)
			} else {
				path = arg
			}
			switch {
			case strings.HasSuffix(path, ".nv.hcl") || strings.HasSuffix(path, ".nv.json"):
				vars = append(vars, path)
			case slices.Contains([]string{".nomad", ".hcl", ".json"}, filepath.Ext(path)) || !info.IsDir():
				jobs = append(jobs, path)
			}
			return nil
		})
		if err != nil {
			return berth.Errorf(berth.Invalid, "read %s: %w", arg, err)
		}
	}
	for _, name := range vars {
		v, err := readSpec(i.call, name, "variable", false, jobspec.ParseVariable)
		if err != nil {
			i.say("File "+name, "", "", err)
			continue
		}
		i.variable(ctx, v)
	}
	for _, name := range jobs {
		f, err := i.file.read(ctx, i.call, name)
		if err != nil {
			i.say("File "+name, "", "", err)
			continue
		}
		space := cmp.Or(f.job.Namespace, i.call.config.space())
		i.job(ctx, fmt.Sprintf("Job %q in namespace %q", f.job.ID, space), string(f.job.ID), space, f.tree, f.submission)
	}
	return nil
}
