package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"berth"
	"berth/client"
	"berth/op"
)

// showRole shows a role.
func showRole(_ *call, p *page, r *berth.ACLRole) {
	p.pairs("ID", r.ID, "Name", r.Name, "Description", or(r.Description, none), "Policies", policyNames(r),
		"Create Index", strconv.FormatUint(r.CreateIndex, 10), "Modify Index", strconv.FormatUint(r.ModifyIndex, 10))
}

// policyNames lists the policies of a role.
func policyNames(r *berth.ACLRole) string {
	var names []string
	for _, l := range r.Policies {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// links refers to policies by name.
func links(names []string) (out []berth.ACLLink) {
	for _, name := range names {
		out = append(out, berth.ACLLink{Name: name})
	}
	return out
}

// aclRoleCreateCommand creates a role.
func aclRoleCreateCommand() *command {
	return &command{
		name: "acl role create", synopsis: "Create a role",
		example: "acl role create -name operators -policy nodes -policy jobs",
		help:    "Creates a role: a named set of policies, which tokens can have.",
		setup: func(f *flags) action {
			data := f.data()
			name, description := f.String("name", "The `name` of the role."), f.String("description", "The `description` of the role.")
			policies := f.List("policy", "The `name` of a policy of the role. May be repeated.")
			read := func(ctx context.Context, c *call) (*berth.ACLRole, error) {
				out, _, err := client.Call(ctx, c.client, op.CreateACLRole, op.WriteACLRole{Name: *name, Description: *description, Policies: links(*policies)})
				return out, err
			}
			return answer(data, read, showRole)
		},
	}
}

// aclRoleUpdateCommand changes a role.
func aclRoleUpdateCommand() *command {
	return &command{
		name: "acl role update", args: "<role-id>", synopsis: "Change a role", min: 1, max: 1, list: "acl role list",
		example: "acl role update -policy jobs 0b1c…",
		help:    "Changes a role. Policies are added to those that it has, unless -no-merge replaces everything by what is given.",
		setup: func(f *flags) action {
			data := f.data()
			name, description := f.String("name", "The `name` of the role."), f.String("description", "The `description` of the role.")
			policies := f.List("policy", "The `name` of a policy of the role. May be repeated.")
			replace := f.Bool("no-merge", "Replace the role instead of adding to it.")
			read := func(ctx context.Context, c *call) (*berth.ACLRole, error) {
				old, _, err := client.Call(ctx, c.client, op.ReadACLRole, op.ACLRoleRef{RoleID: c.args[0]})
				if err != nil {
					return nil, err
				}
				in := op.WriteACLRole{RoleID: old.ID, Name: *name, Description: *description, Policies: links(*policies)}
				if !*replace {
					in.Name, in.Description = or(*name, old.Name), or(*description, old.Description)
					in.Policies = append(old.Policies, in.Policies...)
				}
				out, _, err := client.Call(ctx, c.client, op.UpdateACLRole, in)
				return out, err
			}
			return answer(data, read, showRole)
		},
	}
}

// aclRoleInfoCommand shows one role.
func aclRoleInfoCommand() *command {
	return &command{
		name: "acl role info", args: "<role-id>", synopsis: "Show a role", min: 1, max: 1, list: "acl role list",
		example: "acl role info -by-name operators",
		help:    "Shows a role, by ID or name.",
		setup: func(f *flags) action {
			data := f.data()
			byName := f.Bool("by-name", "The argument is the name of the role, not its ID.")
			read := func(ctx context.Context, c *call) (*berth.ACLRole, error) {
				if *byName {
					out, _, err := client.Call(ctx, c.client, op.FindACLRole, op.ACLRoleByName{RoleName: c.args[0]})
					return out, err
				}
				out, _, err := client.Call(ctx, c.client, op.ReadACLRole, op.ACLRoleRef{RoleID: c.args[0]})
				return out, err
			}
			return answer(data, read, showRole)
		},
	}
}

// aclRoleListCommand lists roles.
func aclRoleListCommand() *command {
	return &command{
		name: "acl role list", synopsis: "List roles",
		example: "acl role list",
		help:    "Lists the roles of the token, or all with a management token.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListACLRoles, &in, &in, "No roles found", func(p *page, list []*berth.ACLRole) {
					rows := [][]string{{"ID", "Name", "Description", "Policies"}}
					for _, r := range list {
						rows = append(rows, []string{r.ID, r.Name, or(r.Description, none), policyNames(r)})
					}
					p.table(rows)
				})
			}
		},
	}
}

// exitNo is the exit status of acl can-i if the answer is no.
const exitNo = 2

// aclCanCommand asks whether the token may do something.
func aclCanCommand() *command {
	return &command{
		name: "acl can-i", args: "<capability>", synopsis: "Ask whether the token may do something", min: 1, max: 1,
		example: "acl can-i submit-job -namespace team-a",
		help: `Prints yes or no: whether the token of the command has a capability, such as submit-job or node:read. Those of namespaces are asked
			for the namespace of the command. The exit status is 0 for yes and 2 for no.`,
		setup: func(f *flags) action {
			return func(ctx context.Context, c *call) error {
				out, _, err := client.Call(ctx, c.client, op.AskACL, op.CanQuery{Capability: c.args[0]})
				if err != nil {
					return err
				}
				if !out.Allowed {
					fmt.Fprintln(c.Out, "no")
					return exit(exitNo)
				}
				_, err = fmt.Fprintln(c.Out, "yes")
				return err
			}
		},
	}
}
