package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// families are the commands for the two families of addresses.
var families = []string{"iptables", "ip6tables"}

// removeRules removes what CNI plugins made for an allocation in the table nat
// of the firewall. The plugins find their rules by the addresses in the
// namespace, so they miss those of a namespace that is gone. Rules of others
// stay. The chains are only emptied, because plugins fail when one of theirs is
// missing; removeChains removes those that the plugins have left.
func removeRules(ctx context.Context, alloc string) (chains []string, err error) {
	var errs []error
	for _, family := range families {
		saved, err := savedRules(ctx, family)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rules, lead := rulesOf(saved, alloc)
		chains = append(chains, lead...)
		var changes []string
		for _, r := range rules {
			changes = append(changes, "-D "+r)
		}
		for _, c := range lead {
			changes = append(changes, "-F "+c)
		}
		errs = append(errs, change(ctx, family, changes))
	}
	return chains, errors.Join(errs...)
}

// removeChains removes those of the chains that are still there.
func removeChains(ctx context.Context, chains []string) error {
	if len(chains) == 0 {
		return nil
	}
	var errs []error
	for _, family := range families {
		saved, err := savedRules(ctx, family)
		errs = append(errs, err)
		var changes []string
		for _, c := range chains {
			if strings.Contains(saved, "\n:"+c+" ") && !slices.Contains(changes, "-X "+c) {
				changes = append(changes, "-X "+c)
			}
		}
		errs = append(errs, change(ctx, family, changes))
	}
	return errors.Join(errs...)
}

// savedRules returns the table nat as iptables-save writes it; "" if the command
// is not there, since then no plugin made rules.
func savedRules(ctx context.Context, family string) (string, error) {
	if _, err := exec.LookPath(family + "-save"); err != nil {
		return "", nil
	}
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(ctx, family+"-save", "-t", "nat")
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := run(ctx, cmd); err != nil {
		return "", fmt.Errorf("%s-save: %w: %s", family, err, bytes.TrimSpace(problem.Bytes()))
	}
	return out.String(), nil
}

// change makes all changes to the table nat, or none.
func change(ctx context.Context, family string, changes []string) error {
	if len(changes) == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, family+"-restore", "--noflush", "--wait")
	cmd.Stdin = strings.NewReader("*nat\n" + strings.Join(changes, "\n") + "\nCOMMIT\n")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := run(ctx, cmd); err != nil {
		return fmt.Errorf("%s-restore: %w: %s", family, err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// rulesOf returns the rules of an allocation in a saved table that lead to
// chains, and these chains. Plugins write the ID of the allocation into the
// comment of such a rule, and name the chains CNI-….
func rulesOf(saved, alloc string) (rules, chains []string) {
	for line := range strings.Lines(saved) {
		rule, ok := strings.CutPrefix(strings.TrimSpace(line), "-A ")
		if !ok || !strings.Contains(rule, `id: \"`+alloc+`\"`) {
			continue
		}
		words := strings.Fields(rule)
		if i := slices.Index(words, "-j"); i >= 0 && i+1 < len(words) && strings.HasPrefix(words[i+1], "CNI-") {
			rules = append(rules, rule)
			if !slices.Contains(chains, words[i+1]) {
				chains = append(chains, words[i+1])
			}
		}
	}
	return rules, chains
}
