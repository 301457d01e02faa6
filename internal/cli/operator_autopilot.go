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

// operatorAutopilotGetCommand shows the settings with the names that Nomad
// prints, including those that Berth does not use.
func operatorAutopilotGetCommand() *command {
	return &command{
		name: "operator autopilot get-config", synopsis: "Show the autopilot configuration",
		example: "operator autopilot get-config",
		help:    "Shows the configuration of autopilot, which manages the servers of the cluster. It is the same on all servers.",
		setup: func(f *flags) action {
			data := f.data()
			return answer(data, reading(op.ReadAutopilot, op.Query{}), func(_ *call, p *page, a op.AutopilotConfig) {
				p.linef("CleanupDeadServers = %v", a.CleanupDeadServers)
				p.linef("LastContactThreshold = %v", time.Duration(a.LastContactThreshold))
				p.linef("MaxTrailingLogs = %v", a.MaxTrailingLogs)
				p.linef("MinQuorum = %v", a.MinQuorum)
				p.linef("ServerStabilizationTime = %v", time.Duration(a.ServerStabilizationTime))
				p.linef("EnableRedundancyZones = %v", a.EnableRedundancyZones)
				p.linef("DisableUpgradeMigration = %v", a.DisableUpgradeMigration)
				p.linef("EnableCustomUpgrades = %v", a.EnableCustomUpgrades)
			})
		},
	}
}

// operatorAutopilotSetCommand changes the settings whose flags were given. It
// reads the others first and writes all of them, provided that nobody else
// wrote meanwhile.
func operatorAutopilotSetCommand() *command {
	return &command{
		name: "operator autopilot set-config", synopsis: "Change the autopilot configuration",
		example: "operator autopilot set-config -min-quorum 3",
		help: `Changes the given settings of autopilot and keeps the others. If someone else changes the configuration at the same time, nothing
			is changed.`,
		setup: func(f *flags) action {
			cleanup := f.Bool("cleanup-dead-servers", "Remove failed servers automatically, as long as a majority remains.")
			contact := f.Duration("last-contact-threshold", 0, "A server is unhealthy if its last contact with the leader is older than this `duration`.")
			trailing := f.Uint64("max-trailing-logs", 0, "A server is unhealthy if its log lags by more than this `number` of entries.")
			quorum := f.Uint("min-quorum", 0, "Remove a server only if at least this `number` of voters remains.")
			stable := f.Duration("server-stabilization-time", 0, "The `duration` for which a new server must be healthy before it becomes a voter.")
			f.UnsupportedBool("disable-upgrade-migration", "enable-custom-upgrades", "enable-redundancy-zones")
			return func(ctx context.Context, c *call) error {
				a, _, err := client.Call(ctx, c.client, op.ReadAutopilot, op.Query{})
				if err != nil {
					return err
				}
				// The write replaces everything, so it begins with what was
				// read.
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
					return berth.Errorf(berth.Conflict, "the autopilot configuration was not changed: it has been modified since index %d", *in.CAS)
				}
				_, err = fmt.Fprintln(c.Out, "Configuration updated!")
				return err
			}
		},
	}
}

// operatorAutopilotHealthCommand shows the health of the servers and reports it
// in the exit code, for monitoring.
func operatorAutopilotHealthCommand() *command {
	return &command{
		name: "operator autopilot health", synopsis: "Show the health of the servers",
		example: "operator autopilot health",
		help: `Shows the health of the servers as the leader sees it, and how many of them can fail before the cluster becomes unavailable. The
			exit code is 1 if a server is unhealthy.`,
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

// healthPage shows the health of the cluster, and a table of its servers.
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
			s.ID, s.Name, s.Address, s.SerfStatus, or(s.Berth, s.Version), strconv.FormatBool(s.Leader), strconv.FormatBool(s.Voter), strconv.FormatBool(s.Healthy),
			time.Duration(s.LastContact).Round(time.Millisecond).String(), strconv.FormatUint(s.LastTerm, 10), strconv.FormatUint(s.LastIndex, 10), stamp(s.StableSince),
		})
	}
	p.table(rows)
	return p
}
