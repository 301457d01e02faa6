package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"berth/internal/agent/cloud"
)

// What the cloud says of the machine. The node is told without it first, and again
// when the cloud has answered, so that no agent waits for a cloud. Only one that may
// not start without an answer does.

// askRequiredClouds asks those without whose answer the agent may not run, before
// the node is told to servers.
func (a *Agent) askRequiredClouds(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(a.c.Clouds)) {
		f := a.c.Clouds[name]
		if !f.ExitOnFailure {
			continue
		}
		found, err := cloud.Ask(ctx, name, f, a.log)
		if err != nil {
			return fmt.Errorf("agent: client.fingerprint.%s: the cloud does not answer, and exit_on_failure is true: %w", name, err)
		}
		a.addAttributes(found)
	}
	return nil
}

// askClouds asks the others, each on its own.
func (a *Agent) askClouds(ctx context.Context) error {
	var wait sync.WaitGroup
	for name, f := range a.c.Clouds {
		if f.ExitOnFailure {
			continue
		}
		wait.Go(func() {
			found, err := cloud.Ask(ctx, name, f, a.log)
			if err != nil {
				if ctx.Err() == nil {
					a.log.Warn("the cloud does not answer; constraints on its attributes do not find this node", "fingerprint", name, "error", err)
				}
				return
			}
			a.addAttributes(found)
		})
	}
	wait.Wait()
	return nil
}

// addAttributes adds attributes to the node, and has it told again.
func (a *Agent) addAttributes(found map[string]string) {
	if len(found) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := *a.node
	n.Attributes = maps.Clone(n.Attributes)
	maps.Copy(n.Attributes, found)
	a.renode(&n)
}
