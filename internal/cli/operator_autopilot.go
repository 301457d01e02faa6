package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"berth"
	"berth/client"
	"berth/op"
)

func operatorAutopilotGetCommand() *command {
	return &command{
		name: "operator autopilot get-config", synopsis: "Show how the cluster looks after its servers",
		help: "Shows how the cluster looks after its servers: the configuration of autopilot, which is the same on all of them.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				a, _, err := client.Call(ctx, c.client, op.ReadAutopilot, op.Query{})
				if err != nil {
					return err
				}
				if data.wanted() {
					return data.write(c, a)
				}
				p := c.page()
				p.linef("CleanupDeadServers = %v", a.CleanupDeadServers)
				p.linef("LastContactThreshold = %v", time.Duration(a.LastContactThreshold))
				p.linef("MaxTrailingLogs = %v", a.MaxTrailingLogs)
				p.linef("MinQuorum = %v", a.MinQuorum)
				p.linef("ServerStabilizationTime = %v", time.Duration(a.ServerStabilizationTime))
				p.linef("EnableRedundancyZones = %v", a.EnableRedundancyZones)
				p.linef("DisableUpgradeMigration = %v", a.DisableUpgradeMigration)
				p.linef("EnableCustomUpgrades = %v", a.EnableCustomUpgrades)
				return c.show(p)
			}
		},
	}
}

func operatorAutopilotSetCommand() *command {
	return &command{
		name: "operator autopilot set-config", synopsis: "Change how the cluster looks after its servers",
		help: `Changes what the flags say of the configuration of autopilot, and leaves the rest as it is. If somebody else changes it in the
			same moment, nothing is changed.`,
		setup: func(f *flags) action {
			cleanup := f.Bool("cleanup-dead-servers", "Remove servers that failed, as long as most remain.")
			contact := f.Duration("last-contact-threshold", 0, "A server that heard the leader longer ago than this `duration` is not healthy.")
			trailing := f.Uint64("max-trailing-logs", 0, "Nor is one that lacks more than this `number` of entries of the log.")
			quorum := f.Uint("min-quorum", 0, "Remove no server if fewer than this `number` of voters would remain.")
			stable := f.Duration("server-stabilization-time", 0, "A new server must be healthy for this `duration` before it votes.")
			f.UnbuiltBool("disable-upgrade-migration", "enable-custom-upgrades", "enable-redundancy-zones")
			return func(ctx context.Context, c *call) error {
				a, _, err := client.Call(ctx, c.client, op.ReadAutopilot, op.Query{})
				if err != nil {
					return err
				}
				in := op.SetAutopilot{CAS: &a.ModifyIndex, AutopilotConfig: berth.AutopilotConfig{
					CleanupDeadServers: a.CleanupDeadServers, LastContactThreshold: time.Duration(a.LastContactThreshold), MaxTrailingLogs: a.MaxTrailingLogs,
					MinQuorum: a.MinQuorum, ServerStabilizationTime: time.Duration(a.ServerStabilizationTime),
				}}
				for name, set := range map[string]func(){
					"cleanup-dead-servers":      func() { in.CleanupDeadServers = *cleanup },
					"last-contact-threshold":    func() { in.LastContactThreshold = *contact },
					"max-trailing-logs":         func() { in.MaxTrailingLogs = *trailing },
					"min-quorum":                func() { in.MinQuorum = *quorum },
					"server-stabilization-time": func() { in.ServerStabilizationTime = *stable },
				} {
					if f.given(name) {
						set()
					}
				}
				done, _, err := client.Call(ctx, c.client, op.WriteAutopilot, in)
				if err != nil {
					return err
				}
				if !done {
					return berth.Errorf(berth.Conflict, "the autopilot configuration was not changed: it is not as it was at index %d any more", *in.CAS)
				}
				_, err = fmt.Fprintln(c.Out, "Configuration updated!")
				return err
			}
		},
	}
}

func operatorAutopilotHealthCommand() *command {
	return &command{
		name: "operator autopilot health", synopsis: "Show how the servers are",
		help: "Shows how the servers are as the leader sees them, and how many may be lost before nothing can be written. It ends with 1 if one is not healthy.",
		setup: func(f *flags) action {
			data := f.data()
			return func(ctx context.Context, c *call) error {
				if err := data.check(c); err != nil {
					return err
				}
				out, _, err := client.Call(ctx, c.client, op.ReadAutopilotHealth, op.Query{})
				if err != nil {
					return err
				}
				if data.wanted() {
					err = data.write(c, out)
				} else {
					err = c.show(healthPage(c, &out))
				}
				if err == nil && !out.Healthy {
					err = exit(exitError)
				}
				return err
			}
		},
	}
}

func healthPage(c *call, h *op.AutopilotHealth) *page {
	p := c.page()
	p.linef("Healthy: %v", h.Healthy)
	p.linef("FailureTolerance: %d", h.FailureTolerance)
	p.linef("Leader: %s", h.Leader)
	p.linef("Voters:")
	for _, id := range h.Voters {
		p.linef("  %s", id)
	}
	p.linef("Servers:")
	rows := [][]string{{"ID", "Name", "Address", "SerfStatus", "Version", "Leader", "Voter", "Healthy", "LastContact", "LastTerm", "LastIndex", "StableSince"}}
	for _, s := range h.Servers {
		rows = append(rows, []string{
			s.ID, s.Name, s.Address, s.SerfStatus, s.Version, strconv.FormatBool(s.Leader), strconv.FormatBool(s.Voter), strconv.FormatBool(s.Healthy),
			time.Duration(s.LastContact).Round(time.Millisecond).String(), strconv.FormatUint(s.LastTerm, 10), strconv.FormatUint(s.LastIndex, 10), stamp(s.StableSince),
		})
	}
	p.table(rows)
	return p
}
