package cli

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"berth/client"
	"berth/op"
)

// scalingPolicyListCommand lists the policies that autoscalers read.
func scalingPolicyListCommand() *command {
	return &command{
		name: "scaling policy list", synopsis: "List the scaling policies of jobs",
		example: "scaling policy list -job web",
		help:    "Lists the scaling policies of jobs that are not stopped, optionally of one job or type.",
		setup: func(f *flags) action {
			s := scalingPolicyList{
				data:    f.data(),
				verbose: f.Bool("verbose", "Show IDs in full."),
				job:     f.String("job", "List only the policies of this `job`."),
				kind:    f.String("type", "List only the policies whose `type` has this prefix."),
			}
			return s.run
		},
	}
}

// scalingPolicyList holds the flags of "scaling policy list".
type scalingPolicyList struct {
	data      dataFlags
	verbose   *bool
	job, kind *string
}

// run prints the list. The server selects by job and type.
func (s scalingPolicyList) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	list, _, err := client.Call(ctx, c.client, op.ListPolicies, op.PoliciesQuery{Job: *s.job, Type: *s.kind})
	if err != nil {
		return err
	}
	if s.data.wanted() {
		return s.data.write(c, list)
	}
	p := c.page()
	if len(list) == 0 {
		p.linef("No policies found")
		return c.show(p)
	}
	p.table(policyRows(list, *s.verbose))
	return c.show(p)
}

// policyRows is a table of policies, also used for an ambiguous prefix.
func policyRows(list []op.PolicyStub, verbose bool) [][]string {
	rows := [][]string{{"ID", "Enabled", "Type", "Target"}}
	for _, s := range list {
		rows = append(rows, []string{short(s.ID, verbose), strconv.FormatBool(s.Enabled), s.Type, targetText(s.Target)})
	}
	return rows
}

// targetText joins the parts of a target, sorted by key, as Nomad prints them.
func targetText(target map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(target)) {
		parts = append(parts, k+":"+target[k])
	}
	return strings.Join(parts, ",")
}

// scalingPolicyInfoCommand shows one policy with its settings as JSON.
func scalingPolicyInfoCommand() *command {
	return &command{
		name: "scaling policy info", args: "<policy_id>", synopsis: "Show a scaling policy", min: 1, max: 1,
		example: "scaling policy info 74a4ac1b",
		help:    "Shows a scaling policy, given by ID or prefix.",
		setup: func(f *flags) action {
			s := scalingPolicyInfo{data: f.data(), verbose: f.Bool("verbose", "Show IDs in full.")}
			return s.run
		},
	}
}

// scalingPolicyInfo holds the flags of "scaling policy info".
type scalingPolicyInfo struct {
	data    dataFlags
	verbose *bool
}

// run prints the policy that the argument names.
func (s scalingPolicyInfo) run(ctx context.Context, c *call) error {
	if err := s.data.check(c); err != nil {
		return err
	}
	id, err := c.findPolicy(ctx, c.args[0])
	if err != nil {
		return err
	}
	v, _, err := client.Call(ctx, c.client, op.ReadPolicy, op.PolicyRef{PolicyID: id})
	if err != nil {
		return err
	}
	if s.data.wanted() {
		return s.data.write(c, v)
	}
	policy, err := json.MarshalIndent(v.Policy, "", "    ")
	if err != nil {
		return err
	}
	p := c.page()
	p.pairs("ID", short(v.ID, *s.verbose), "Enabled", strconv.FormatBool(v.Enabled), "Type", v.Type, "Target", targetText(v.Target),
		"Min", strconv.FormatInt(v.Min, 10), "Max", strconv.FormatInt(v.Max, 10),
		"Create Index", strconv.FormatUint(v.CreateIndex, 10), "Modify Index", strconv.FormatUint(v.ModifyIndex, 10))
	p.heading("Policy:")
	p.linef("%s", policy)
	return c.show(p)
}

// findPolicy returns the ID of the scaling policy that begins with text.
func (c *call) findPolicy(ctx context.Context, text string) (string, error) {
	if len(text) == fullID {
		return text, nil
	}
	if err := prefixOf("scaling policy", text); err != nil {
		return "", err
	}
	found, _, err := client.Call(ctx, c.client, op.ListPolicies, op.PoliciesQuery{Query: op.Query{Prefix: text, Namespace: c.config.anySpace()}})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", c.notFound("scaling policy", text, "scaling policy list")
	case len(found) > 1:
		return "", ambiguous("scaling policies", text, policyRows(found, len(text) >= shortID))
	}
	return found[0].ID, nil
}
