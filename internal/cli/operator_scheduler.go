package cli

import (
	"context"
	"fmt"
	"strconv"

	"berth"
	"berth/client"
	"berth/op"
)

// operatorSchedulerGetCommand shows the configuration with its modify index,
// which -check-index of the set command takes.
func operatorSchedulerGetCommand() *command {
	return &command{
		name: "operator scheduler get-config", synopsis: "Show the scheduler configuration",
		example: "operator scheduler get-config",
		help:    "Shows the configuration of the schedulers, which is the same on all servers.",
		setup: func(f *flags) action {
			data := f.data()
			return answer(data, reading(op.ReadScheduler, op.Query{}), func(_ *call, p *page, out op.SchedulerConfig) {
				s := out.SchedulerConfig
				kv := []string{
					"Scheduler Algorithm", s.SchedulerAlgorithm,
					"Memory Oversubscription", strconv.FormatBool(s.MemoryOversubscriptionEnabled),
					"Reject Job Registration", strconv.FormatBool(s.RejectJobRegistration),
					"Pause Eval Broker", strconv.FormatBool(s.PauseEvalBroker),
					"Preemption System Scheduler", strconv.FormatBool(s.PreemptionConfig.SystemSchedulerEnabled),
					"Preemption Service Scheduler", strconv.FormatBool(s.PreemptionConfig.ServiceSchedulerEnabled),
					"Preemption Batch Scheduler", strconv.FormatBool(s.PreemptionConfig.BatchSchedulerEnabled),
					"Preemption SysBatch Scheduler", strconv.FormatBool(s.PreemptionConfig.SysBatchSchedulerEnabled),
				}
				if s.MaxStartsPerNode > 0 { // not in Nomad
					kv = append(kv, "Max Starts Per Node", strconv.FormatUint(uint64(s.MaxStartsPerNode), 10))
				}
				p.pairs(append(kv, "Modify Index", strconv.FormatUint(s.ModifyIndex, 10))...)
			})
		},
	}
}

// operatorSchedulerSetCommand changes the settings whose flags were given.
func operatorSchedulerSetCommand() *command {
	return &command{
		name: "operator scheduler set-config", synopsis: "Change the scheduler configuration",
		example: "operator scheduler set-config -scheduler-algorithm spread",
		help: `Changes the given settings of the schedulers and keeps the others. If someone else changes the configuration at the same time,
			nothing is changed.`,
		setup: func(f *flags) action {
			s := operatorScheduler{
				check:     f.String("check-index", "Change the configuration only if its modify `index` is this."),
				algorithm: f.String("scheduler-algorithm", "The placement `algorithm`: binpack fills one node before the next, spread prefers the emptiest node, and balanced keeps the remaining CPU and memory in proportion."),
				starts:    f.Int("max-starts-per-node", 0, "Start at most this `number` of allocations per plan on one node, as long as other nodes can take the rest. 0 is unlimited."),
				limit:     f.Int("node-limit-for-feasibility-checks", 0, "A `number` of nodes. Stored and shown, but without effect: all nodes are considered, at no extra cost."),
			}
			for _, b := range []struct {
				name, usage string
				of          func(*berth.SchedulerConfig) *bool
			}{
				{"pause-eval-broker", "Stop delivering evaluations to schedulers until set to false.", func(c *berth.SchedulerConfig) *bool { return &c.PauseEvalBroker }},
				{"reject-job-registration", "Reject job registrations until set to false.", func(c *berth.SchedulerConfig) *bool { return &c.RejectJobRegistration }},
				{"memory-oversubscription", "Let tasks use more memory than they reserve, up to memory_max.", func(c *berth.SchedulerConfig) *bool { return &c.MemoryOversubscriptionEnabled }},
				{"preempt-system-scheduler", "Let system jobs preempt jobs of lower priority.", func(c *berth.SchedulerConfig) *bool { return &c.PreemptionConfig.SystemSchedulerEnabled }},
				{"preempt-service-scheduler", "Let service jobs preempt jobs of lower priority.", func(c *berth.SchedulerConfig) *bool { return &c.PreemptionConfig.ServiceSchedulerEnabled }},
				{"preempt-batch-scheduler", "Let batch jobs preempt jobs of lower priority.", func(c *berth.SchedulerConfig) *bool { return &c.PreemptionConfig.BatchSchedulerEnabled }},
				{"preempt-sysbatch-scheduler", "Let sysbatch jobs preempt jobs of lower priority.", func(c *berth.SchedulerConfig) *bool { return &c.PreemptionConfig.SysBatchSchedulerEnabled }},
			} {
				value := f.Bool(b.name, b.usage)
				s.change = append(s.change, func(c *berth.SchedulerConfig) {
					if f.given(b.name) {
						*b.of(c) = *value
					}
				})
			}
			return s.run
		},
	}
}

// operatorScheduler holds the flags of "operator scheduler set-config".
type operatorScheduler struct {
	check, algorithm *string
	limit, starts    *int
	change           []func(*berth.SchedulerConfig) // one for each flag that is true or false
}

// run reads the configuration, changes what was given, and writes it if its
// index is still the same: that of the read, or of -check-index.
func (s *operatorScheduler) run(ctx context.Context, c *call) error {
	now, _, err := client.Call(ctx, c.client, op.ReadScheduler, op.Query{})
	if err != nil {
		return err
	}
	// The write replaces everything, so it begins with what was read. The index
	// guards against another writer.
	in := op.SetScheduler{SchedulerConfig: *now.SchedulerConfig, CAS: &now.SchedulerConfig.ModifyIndex}
	if c.flags.given("check-index") {
		index, err := strconv.ParseUint(*s.check, 10, 64)
		if err != nil {
			return c.usagef("flag -check-index must be an integer of at least 0, got %q", *s.check)
		}
		in.CAS = &index
	}
	// These fields are unsigned, so a negative number must be caught here.
	for _, n := range []struct {
		flag  string
		value int
		to    *uint
	}{
		{"node-limit-for-feasibility-checks", *s.limit, &in.NodeLimitForFeasibilityChecks},
		{"max-starts-per-node", *s.starts, &in.MaxStartsPerNode},
	} {
		if err := c.notNegative(numberFlag{n.flag, int64(n.value)}); err != nil {
			return err
		}
		if c.flags.given(n.flag) {
			*n.to = uint(n.value)
		}
	}
	if *s.algorithm != "" {
		in.SchedulerAlgorithm = *s.algorithm
	}
	for _, f := range s.change {
		f(&in.SchedulerConfig)
	}
	out, _, err := client.Call(ctx, c.client, op.WriteScheduler, in)
	if err != nil {
		return err
	}
	// A stale index is not an error of the API.
	if !out.Updated {
		return berth.Errorf(berth.Conflict, "the scheduler configuration was not changed: it has been modified since index %d", *in.CAS)
	}
	if *s.limit > 0 {
		fmt.Fprintln(c.Err, "Note: -node-limit-for-feasibility-checks has no effect: all nodes are considered.")
	}
	_, err = fmt.Fprintln(c.Out, "Scheduler configuration updated!")
	return err
}
