package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth/client"
	"berth/op"
)

// ruleFlags are the flags of commands that create or change a binding rule.
type ruleFlags struct{ description, selector, bindType, bindName *string }

// rule declares the flags.
func (f *flags) rule() ruleFlags {
	return ruleFlags{
		description: f.String("description", "The `description` of the binding rule."),
		selector:    f.String("selector", "Whom it is for: an `expression` over value.NAME and list.NAME, such as '\"eng\" in list.groups'. Without it, everybody."),
		bindType:    f.String("bind-type", "What it grants: the `type` role, policy or management."),
		bindName:    f.String("bind-name", "The `name` of the role or policy. ${value.NAME} stands for a claim."),
	}
}

// showBindingRule shows a binding rule.
func showBindingRule(_ *call, p *page, r op.BindingRule) {
	p.pairs("ID", r.ID, "Description", or(r.Description, none), "Auth Method", r.AuthMethod, "Selector", or(r.Selector, none), "Bind Type", r.BindType,
		"Bind Name", or(r.BindName, none), "Create Index", strconv.FormatUint(r.CreateIndex, 10), "Modify Index", strconv.FormatUint(r.ModifyIndex, 10))
}

// bindingRuleCreateCommand creates a binding rule.
func bindingRuleCreateCommand() *command {
	return &command{
		name: "acl binding-rule create", synopsis: "Create a binding rule",
		example: `acl binding-rule create -auth-method sso -bind-type role -bind-name engineering -selector '"eng" in list.groups'`,
		help:    "Creates a binding rule: what a login with an auth method grants, and to whom.",
		setup: func(f *flags) action {
			data, r := f.data(), f.rule()
			method := f.String("auth-method", "The `name` of the auth method.")
			return answer(data, func(ctx context.Context, c *call) (op.BindingRule, error) {
				out, _, err := client.Call(ctx, c.client, op.CreateBindingRule, op.WriteBindingRule{
					AuthMethod: *method, Description: *r.description, Selector: *r.selector, BindType: *r.bindType, BindName: *r.bindName,
				})
				return out, err
			}, showBindingRule)
		},
	}
}

// bindingRuleUpdateCommand changes a binding rule.
func bindingRuleUpdateCommand() *command {
	return &command{
		name: "acl binding-rule update", args: "<id>", synopsis: "Change a binding rule", min: 1, max: 1, list: "acl binding-rule list",
		example: "acl binding-rule update -bind-name ops 0b1c…",
		help:    "Changes the given fields of a binding rule. With -no-merge, all other fields become empty.",
		setup: func(f *flags) action {
			data, r := f.data(), f.rule()
			replace := f.Bool("no-merge", "Replace the binding rule instead of changing it.")
			return answer(data, func(ctx context.Context, c *call) (out op.BindingRule, err error) {
				old, _, err := client.Call(ctx, c.client, op.ReadBindingRule, op.BindingRuleRef{RuleID: c.args[0]})
				if err != nil {
					return out, err
				}
				in := op.WriteBindingRule{RuleID: old.ID, AuthMethod: old.AuthMethod}
				for _, x := range []struct {
					name      string
					to, given *string
					before    string
				}{
					{"description", &in.Description, r.description, old.Description}, {"selector", &in.Selector, r.selector, old.Selector},
					{"bind-type", &in.BindType, r.bindType, old.BindType}, {"bind-name", &in.BindName, r.bindName, old.BindName},
				} {
					if *x.to = x.before; *replace || f.given(x.name) {
						*x.to = *x.given
					}
				}
				out, _, err = client.Call(ctx, c.client, op.UpdateBindingRule, in)
				return out, err
			}, showBindingRule)
		},
	}
}

// bindingRuleInfoCommand shows one binding rule.
func bindingRuleInfoCommand() *command {
	return &command{
		name: "acl binding-rule info", args: "<id>", synopsis: "Show a binding rule", min: 1, max: 1, list: "acl binding-rule list",
		example: "acl binding-rule info 0b1c…",
		help:    "Shows a binding rule.",
		setup: func(f *flags) action {
			return answer(f.data(), func(ctx context.Context, c *call) (op.BindingRule, error) {
				out, _, err := client.Call(ctx, c.client, op.ReadBindingRule, op.BindingRuleRef{RuleID: c.args[0]})
				return out, err
			}, showBindingRule)
		},
	}
}

// bindingRuleListCommand lists the binding rules.
func bindingRuleListCommand() *command {
	return &command{
		name: "acl binding-rule list", synopsis: "List binding rules",
		example: "acl binding-rule list",
		help:    "Lists the binding rules of all auth methods.",
		setup: func(f *flags) action {
			l := f.list()
			return func(ctx context.Context, c *call) error {
				in := op.Query{}
				return showList(ctx, c, l, op.ListBindingRules, &in, &in, "No ACL binding rules found", func(p *page, list []op.BindingRuleStub) {
					rows := [][]string{{"ID", "Auth Method", "Description"}}
					for _, r := range list {
						rows = append(rows, []string{r.ID, r.AuthMethod, or(r.Description, none)})
					}
					p.table(rows)
				})
			}
		},
	}
}

// bindingRuleDeleteCommand deletes a binding rule.
func bindingRuleDeleteCommand() *command {
	return &command{
		name: "acl binding-rule delete", args: "<id>", synopsis: "Delete a binding rule", min: 1, max: 1, list: "acl binding-rule list",
		example: "acl binding-rule delete 0b1c…",
		help:    "Deletes a binding rule. Tokens of earlier logins stay until they expire.",
		setup: func(*flags) action {
			return func(ctx context.Context, c *call) error {
				if _, _, err := client.Call(ctx, c.client, op.RemoveBindingRule, op.DeleteBindingRule{RuleID: c.args[0]}); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.Out, "Successfully deleted ACL binding rule %q!\n", c.args[0])
				return err
			}
		},
	}
}
