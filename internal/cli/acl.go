package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

// aclBootstrapCommand makes the first token.
func aclBootstrapCommand() *command {
	return &command{
		name: "acl bootstrap", args: "[path]", synopsis: "Create the first management token", max: 1,
		example: "acl bootstrap",
		help: `Creates the first token, which may do everything, and prints its secret, once. It works once in a cluster. With a file, or "-" for
			standard input, its text is the secret, a UUID. If all management tokens are lost, write the index that this command names into the
			file acl-bootstrap-reset in the leader's data directory, and run it again.`,
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (op.ACLToken, error) {
				in := op.Bootstrap{}
				if len(c.args) > 0 {
					file, _, err := c.readFile(c.args[0], "secret")
					if err != nil {
						return op.ACLToken{}, err
					}
					in.BootstrapSecret = strings.TrimSpace(string(file.Text))
				}
				out, _, err := client.Call(ctx, c.client, op.BootstrapACL, in)
				return out, err
			}
			return answer(data, read, showToken)
		},
	}
}

// showToken shows a token. The secret is shown only when it was created.
func showToken(_ *call, p *page, t op.ACLToken) {
	expires, created := "never", none // no time: the token of those who have none
	if t.ExpirationTime != nil {
		expires = t.ExpirationTime.Format(time.RFC3339)
	}
	if !t.CreateTime.IsZero() {
		created = t.CreateTime.Format(time.RFC3339)
	}
	kv := []string{"Accessor ID", t.AccessorID}
	if t.SecretID != "" {
		kv = append(kv, "Secret ID", t.SecretID)
	}
	kv = append(kv, "Name", or(t.Name, none), "Type", t.Type, "Global", strconv.FormatBool(t.Global), "Create Time", created,
		"Expiry Time", expires, "Create Index", strconv.FormatUint(t.CreateIndex, 10), "Modify Index", strconv.FormatUint(t.ModifyIndex, 10))
	var roles []string
	for _, r := range t.Roles {
		roles = append(roles, or(r.Name, r.ID))
	}
	kv = append(kv, "Policies", or(strings.Join(t.Policies, ", "), none), "Roles", or(strings.Join(roles, ", "), none))
	p.pairs(kv...)
}

// tokenFlags are the flags of commands that create or change a token.
type tokenFlags struct {
	name, kind              *string
	policies, names, roleID *[]string
}

// token declares the flags.
func (f *flags) token() tokenFlags {
	return tokenFlags{
		name: f.String("name", "The `name` of the token, for people."), kind: f.String("type", "The `type` of the token: client (the default) or management."),
		policies: f.List("policy", "The `name` of a policy of the token. May be repeated."),
		names:    f.List("role-name", "The `name` of a role of the token. May be repeated."),
		roleID:   f.List("role-id", "The `ID` of a role of the token. May be repeated."),
	}
}

// roles returns the roles that the flags name.
func (t tokenFlags) roles() (out []berth.ACLLink) {
	for _, name := range *t.names {
		out = append(out, berth.ACLLink{Name: name})
	}
	for _, id := range *t.roleID {
		out = append(out, berth.ACLLink{ID: id})
	}
	return out
}

// aclTokenCreateCommand creates a token.
func aclTokenCreateCommand() *command {
	return &command{
		name: "acl token create", synopsis: "Create a token",
		example: "acl token create -name deploy -policy web -ttl 8h",
		help:    "Creates a token and prints its secret. The servers keep only a hash of it, so it cannot be shown again.",
		setup: func(f *flags) action {
			data, t := f.data(), f.token()
			global := f.Bool("global", "Mark the token as one for all regions.")
			ttl := f.FlagSet.Duration("ttl", 0, "The `duration` for which the token is valid, such as 8h; 0 means without end.")
			f.Unsupported("accessor")
			read := func(ctx context.Context, c *call) (op.ACLToken, error) {
				out, _, err := client.Call(ctx, c.client, op.CreateACLToken, op.WriteACLToken{
					Name: *t.name, Type: or(*t.kind, berth.TokenClient), Policies: *t.policies, Roles: t.roles(), Global: *global, ExpirationTTL: *ttl,
				})
				return out, err
			}
			return answer(data, read, showToken)
		},
	}
}

// aclTokenUpdateCommand changes a token.
func aclTokenUpdateCommand() *command {
	return &command{
		name: "acl token update", args: "<accessor-id>", synopsis: "Change a token", min: 1, max: 1, list: "acl token list",
		example: "acl token update -policy web -policy logs 0b1c…",
		help:    "Changes the name, policies and roles of a token. Those that are not given stay as they are.",
		setup: func(f *flags) action {
			data, t := f.data(), f.token()
			read := func(ctx context.Context, c *call) (op.ACLToken, error) {
				old, _, err := client.Call(ctx, c.client, op.ReadACLToken, op.ACLTokenRef{AccessorID: c.args[0]})
				if err != nil {
					return old, err
				}
				in := op.WriteACLToken{Accessor: old.AccessorID, Name: old.Name, Type: or(*t.kind, old.Type), Policies: old.Policies, Global: old.Global}
				for _, r := range old.Roles {
					in.Roles = append(in.Roles, berth.ACLLink{ID: r.ID})
				}
				if f.given("name") {
					in.Name = *t.name
				}
				if f.given("policy") {
					in.Policies = *t.policies
				}
				if f.given("role-name") || f.given("role-id") {
					in.Roles = t.roles()
				}
				out, _, err := client.Call(ctx, c.client, op.UpdateACLToken, in)
				return out, err
			}
			return answer(data, read, showToken)
		},
	}
}

// aclTokenInfoCommand shows one token.
func aclTokenInfoCommand() *command {
	return &command{
		name: "acl token info", args: "<accessor-id>", synopsis: "Show a token", min: 1, max: 1, list: "acl token list",
		example: "acl token info 0b1c…",
		help:    "Shows a token by its accessor ID, without its secret.",
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (op.ACLToken, error) {
				out, _, err := client.Call(ctx, c.client, op.ReadACLToken, op.ACLTokenRef{AccessorID: c.args[0]})
				return out, err
			}
			return answer(data, read, showToken)
		},
	}
}

// aclTokenSelfCommand shows the caller's token.
func aclTokenSelfCommand() *command {
	return &command{
		name: "acl token self", synopsis: "Show the token of the command",
		example: "acl token self",
		help:    "Shows the token that the command was given, without its secret.",
		setup:   func(f *flags) action { return answer(f.data(), reading(op.ReadOwnToken, op.Query{}), showToken) },
	}
}

// aclTokenListCommand lists the tokens.
func aclTokenListCommand() *command {
	return &command{
		name: "acl token list", synopsis: "List tokens",
		example: "acl token list",
		help:    "Lists all tokens, without their secrets.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.ACLTokensQuery{}
				return showList(ctx, c, l, op.ListACLTokens, &in, &in.Query, "No tokens", func(p *page, list []op.ACLToken) {
					rows := [][]string{{"Name", "Type", "Global", "Accessor ID", "Expires"}}
					for _, t := range list {
						expires := "never"
						if t.ExpirationTime != nil {
							expires = t.ExpirationTime.Format(time.RFC3339)
						}
						rows = append(rows, []string{or(t.Name, none), t.Type, strconv.FormatBool(t.Global), t.AccessorID, expires})
					}
					p.table(rows)
				})
			}
		},
	}
}

// aclDeleteCommand is a command that deletes a token, policy or role.
func aclDeleteCommand(noun, arg, example string, del func(context.Context, *call, string) error) *command {
	return &command{
		name: "acl " + noun + " delete", args: "<" + arg + ">", synopsis: "Delete a " + noun, min: 1, max: 1, list: "acl " + noun + " list",
		example: "acl " + noun + " delete " + example,
		help:    "Deletes a " + noun + ". What it granted is no longer granted, at once.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				if err := del(ctx, c, c.args[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted %s %q!\n", noun, c.args[0])
				return err
			}
		},
	}
}

// aclTokenDeleteCommand deletes a token.
func aclTokenDeleteCommand() *command {
	return aclDeleteCommand("token", "accessor-id", "0b1c…", func(ctx context.Context, c *call, id string) error {
		_, _, err := client.Call(ctx, c.client, op.RemoveACLToken, op.DeleteACLToken{AccessorID: id})
		return err
	})
}

// aclPolicyDeleteCommand deletes a policy.
func aclPolicyDeleteCommand() *command {
	return aclDeleteCommand("policy", "name", "web", func(ctx context.Context, c *call, name string) error {
		_, _, err := client.Call(ctx, c.client, op.RemoveACLPolicy, op.DeleteACLPolicy{PolicyName: name})
		return err
	})
}

// aclRoleDeleteCommand deletes a role.
func aclRoleDeleteCommand() *command {
	return aclDeleteCommand("role", "role-id", "0b1c…", func(ctx context.Context, c *call, id string) error {
		_, _, err := client.Call(ctx, c.client, op.RemoveACLRole, op.DeleteACLRole{RoleID: id})
		return err
	})
}

// aclPolicyApplyCommand writes a policy from a file.
func aclPolicyApplyCommand() *command {
	return &command{
		name: "acl policy apply", args: "<name> <path>", synopsis: "Create or replace a policy", min: 2, max: 2,
		example: "acl policy apply web web.policy.hcl",
		help:    `Reads the rules of a policy, HCL or JSON, from a file or "-" for standard input, and creates the policy or replaces it.`,
		setup: func(f *flags) action {
			description := f.String("description", "The `description` of the policy.")
			job := f.String("job", "The `ID` of a job, in the namespace of the command. The identities of its tasks have what the policy grants.")
			group := f.String("group", "The `name` of a group of the job. Only its tasks have what the policy grants.")
			task := f.String("task", "The `name` of a task of the group. Only it has what the policy grants.")
			return func(ctx context.Context, c *call) error {
				if *job == "" && *group+*task != "" || *group == "" && *task != "" {
					return c.usagef("-task needs -group, and -group needs -job")
				}
				file, _, err := c.readFile(c.args[1], "policy")
				if err != nil {
					return err
				}
				in := op.WriteACLPolicy{PolicyName: c.args[0], Name: c.args[0], Description: *description, Rules: string(file.Text)}
				if *job != "" {
					in.JobACL = &berth.JobACL{Namespace: c.config.space(), JobID: *job, Group: *group, Task: *task}
				}
				if _, _, err := client.Call(ctx, c.client, op.ApplyACLPolicy, in); err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.Out, "Successfully wrote %q ACL policy!\n", in.Name)
				return err
			}
		},
	}
}

// aclPolicyRows shows policies.
func aclPolicyRows(p *page, list []op.ACLPolicyStub) {
	rows := [][]string{{"Name", "Description"}}
	for _, x := range list {
		rows = append(rows, []string{x.Name, or(x.Description, none)})
	}
	p.table(rows)
}

// aclPolicyListCommand lists policies.
func aclPolicyListCommand() *command {
	return &command{
		name: "acl policy list", synopsis: "List policies",
		example: "acl policy list",
		help:    "Lists the policies of the token, or all with a management token.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListACLPolicies, &in, &in, "No policies found", aclPolicyRows)
			}
		},
	}
}

// aclPolicySelfCommand lists the policies of the caller.
func aclPolicySelfCommand() *command {
	return &command{
		name: "acl policy self", synopsis: "List the policies of the token",
		example: "acl policy self",
		help:    "Lists the policies of the token that the command was given, those of its roles included.",
		setup: func(f *flags) action {
			return answer(f.data(), reading(op.ReadOwnPolicies, op.Query{}), func(_ *call, p *page, list []op.ACLPolicyStub) {
				if len(list) == 0 {
					p.linef("No policies found")
					return
				}
				aclPolicyRows(p, list)
			})
		},
	}
}

// aclPolicyInfoCommand shows one policy.
func aclPolicyInfoCommand() *command {
	return &command{
		name: "acl policy info", args: "<name>", synopsis: "Show a policy", min: 1, max: 1, list: "acl policy list",
		example: "acl policy info web",
		help:    "Shows a policy with its rules.",
		setup: func(f *flags) action {
			data := f.data()
			read := func(ctx context.Context, c *call) (*berth.ACLPolicy, error) {
				out, _, err := client.Call(ctx, c.client, op.ReadACLPolicy, op.ACLPolicyRef{PolicyName: c.args[0]})
				return out, err
			}
			return answer(data, read, func(_ *call, p *page, x *berth.ACLPolicy) {
				bound := none
				if j := x.JobACL; j != nil {
					bound = strings.TrimRight(strings.Join([]string{j.Namespace, j.JobID, j.Group, j.Task}, "/"), "/")
				}
				p.pairs("Name", x.Name, "Description", or(x.Description, none), "Bound to", bound,
					"Create Index", strconv.FormatUint(x.CreateIndex, 10), "Modify Index", strconv.FormatUint(x.ModifyIndex, 10))
				p.heading("Rules")
				for line := range strings.Lines(x.Rules) {
					p.linef("%s", clean(strings.TrimRight(line, "\n")))
				}
			})
		},
	}
}
