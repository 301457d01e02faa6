package task

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/secretprovider"
	"berth/op"
)

// nomadProvider is the provider of secrets that reads variables.
const nomadProvider = "nomad"

// getSecrets gets the secrets of the task. As long as a variable is not there,
// it waits.
func getSecrets(ctx context.Context, at *attempt) error {
	if len(at.task.Secrets) == 0 {
		return nil
	}
	place := *at.place
	place.Secrets = map[string]string{}
	if err := at.secretsOfVariables(ctx, place.Secrets); err != nil {
		return err
	}
	if err := at.secretsOfProviders(ctx, place.Secrets); err != nil {
		return err
	}
	at.place = &place
	at.nameSecrets(&place)
	return nil
}

// secretNames returns what the paths of secrets can name.
func (at *attempt) secretNames() *Names {
	return &Names{Node: at.place.Node, Region: at.place.Region, Env: Environment(at.alloc, at.task, at.place)}
}

// secretsOfVariables gets the secrets that are variables into out.
func (at *attempt) secretsOfVariables(ctx context.Context, out map[string]string) error {
	q := op.WantsQuery{}
	var asked []string // names of the secrets
	for _, s := range at.task.Secrets {
		if s.Provider != nomadProvider {
			continue
		}
		space, _ := s.Config["namespace"].(string)
		asked = append(asked, s.Name)
		q.Wants = append(q.Wants, op.Want{Kind: op.WantVariable, Name: at.secretNames().Replace(s.Path), Namespace: space})
	}
	for len(asked) > 0 {
		got, err := at.ask(ctx, q)
		if err != nil {
			return err
		}
		missing := ""
		for i, v := range got.Values {
			switch {
			case v.Denied:
				return driver.Recoverable(berth.Errorf(berth.Denied, "secret[%s]: the task may not read the variable %q", asked[i], q.Wants[i].Name))
			case v.Missing || len(v.Variables) == 0:
				missing = q.Wants[i].Name
			default:
				for k, text := range v.Variables[0].Items {
					out[asked[i]+"."+k] = text
				}
			}
		}
		if missing == "" {
			break
		}
		at.doing(berth.EventTemplate, "Missing: variable "+missing, berth.TaskWait{Kind: berth.WaitVariable, Name: missing})
		q.MinQueryIndex, q.Have = got.Index, got.Mark
	}
	return nil
}

// secretsOfProviders gets the secrets that programs of this node know into out.
// What a program says goes nowhere else.
func (at *attempt) secretsOfProviders(ctx context.Context, out map[string]string) error {
	for _, s := range at.task.Secrets {
		if s.Provider == nomadProvider {
			continue
		}
		at.doing(berth.EventTemplate, fmt.Sprintf("Asking the provider %s for secret %s", s.Provider, s.Name), berth.TaskWait{Kind: berth.WaitSecret, Name: s.Name})
		var p secretprovider.Providers
		if at.inputs != nil {
			p = at.inputs.Secrets
		}
		names := at.secretNames()
		env := map[string]string{}
		for k, v := range s.Env {
			env[k] = names.Replace(v)
		}
		items, err := p.Fetch(ctx, s.Provider, names.Replace(s.Path), env)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, secretprovider.ErrNone): // another node may have it
			return berth.Errorf(berth.Invalid, "secret[%s].provider: %q: %w", s.Name, s.Provider, err)
		case err != nil:
			return driver.Recoverable(berth.Errorf(berth.Unavailable, "secret[%s]: provider %s: %w", s.Name, s.Provider, err))
		}
		for k, text := range items {
			out[s.Name+"."+k] = text
		}
	}
	return nil
}

// nameSecrets adds the variables of the environment that secrets of variables name.
func (at *attempt) nameSecrets(place *Place) {
	extra := map[string]string{}
	names := Names{Node: place.Node, Region: place.Region, Secrets: place.Secrets}
	for _, s := range at.task.Secrets {
		if s.Provider != nomadProvider {
			continue // they are the provider's
		}
		for k, v := range s.Env {
			extra[k] = names.Replace(v)
		}
	}
	if len(extra) == 0 {
		return
	}
	t := *at.task
	t.Env = maps.Clone(t.Env)
	if t.Env == nil {
		t.Env = map[string]string{}
	}
	for k, v := range extra {
		if _, ok := t.Env[k]; !ok {
			t.Env[k] = v
		}
	}
	at.task = &t
}
