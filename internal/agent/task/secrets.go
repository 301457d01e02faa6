package task

import (
	"context"
	"maps"

	"berth"
	"berth/internal/agent/driver"
	"berth/op"
)

// getSecrets gets the secrets of the task. As long as a variable is not there,
// it waits.
func getSecrets(ctx context.Context, at *attempt) error {
	all := at.task.Secrets
	if len(all) == 0 {
		return nil
	}
	q := op.WantsQuery{}
	for _, s := range all {
		if s.Provider != "nomad" {
			return berth.Errorf(berth.Invalid, "secret[%s].provider: must be nomad, got %q", s.Name, s.Provider)
		}
		space, _ := s.Config["namespace"].(string)
		names := Names{Node: at.place.Node, Region: at.place.Region, Env: Environment(at.alloc, at.task, at.place)}
		q.Wants = append(q.Wants, op.Want{Kind: op.WantVariable, Name: names.Replace(s.Path), Namespace: space})
	}
	place := *at.place
	for {
		out, err := at.ask(ctx, q)
		if err != nil {
			return err
		}
		place.Secrets = map[string]string{}
		missing := ""
		for i, v := range out.Values {
			switch {
			case v.Denied:
				return driver.Recoverable(berth.Errorf(berth.Denied, "secret[%s]: the task may not read the variable %q", all[i].Name, q.Wants[i].Name))
			case v.Missing || len(v.Variables) == 0:
				missing = q.Wants[i].Name
			default:
				for k, text := range v.Variables[0].Items {
					place.Secrets[all[i].Name+"."+k] = text
				}
			}
		}
		if missing == "" {
			break
		}
		at.doing(berth.EventTemplate, "Missing: variable "+missing, berth.TaskWait{Kind: berth.WaitVariable, Name: missing})
		q.MinQueryIndex, q.Have = out.Index, out.Mark
	}
	at.place = &place
	// A secret can name further variables of the environment.
	extra := map[string]string{}
	names := Names{Node: place.Node, Region: place.Region, Secrets: place.Secrets}
	for _, s := range all {
		for k, v := range s.Env {
			extra[k] = names.Replace(v)
		}
	}
	if len(extra) > 0 {
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
	return nil
}
