package config

import (
	"errors"
	"math"

	"berth/internal/decode"
	"berth/internal/validate"

	"berth"
)

// The scheduler configuration of a new cluster, until an operator changes it. A
// key that a file omits has its default, unlike over the API, where it would be
// off: a file that only sets the algorithm must not disable preemption for
// system jobs.

// schedulerPath is the path of the block in problems.
const schedulerPath = "server.default_scheduler_config"

// schedulerKeys are the keys of default_scheduler_config.
var schedulerKeys = table{
	"scheduler_algorithm":               text(func(c *Config) *string { return &scheduler(c).SchedulerAlgorithm }),
	"memory_oversubscription_enabled":   flag(func(c *Config) *bool { return &scheduler(c).MemoryOversubscriptionEnabled }),
	"reject_job_registration":           flag(func(c *Config) *bool { return &scheduler(c).RejectJobRegistration }),
	"pause_eval_broker":                 flag(func(c *Config) *bool { return &scheduler(c).PauseEvalBroker }),
	"node_limit_for_feasibility_checks": count(func(c *Config) *uint { return &scheduler(c).NodeLimitForFeasibilityChecks }),
	"max_starts_per_node":               count(func(c *Config) *uint { return &scheduler(c).MaxStartsPerNode }),
	"preemption_config": block(table{
		"system_scheduler_enabled":   flag(func(c *Config) *bool { return &scheduler(c).PreemptionConfig.SystemSchedulerEnabled }),
		"sysbatch_scheduler_enabled": flag(func(c *Config) *bool { return &scheduler(c).PreemptionConfig.SysBatchSchedulerEnabled }),
		"batch_scheduler_enabled":    flag(func(c *Config) *bool { return &scheduler(c).PreemptionConfig.BatchSchedulerEnabled }),
		"service_scheduler_enabled":  flag(func(c *Config) *bool { return &scheduler(c).PreemptionConfig.ServiceSchedulerEnabled }),
	}),
}

// scheduler is the configuration being read. It starts as the default one.
func scheduler(c *Config) *berth.SchedulerConfig {
	if c.Server.Scheduler == nil {
		s := berth.DefaultSchedulerConfig
		c.Server.Scheduler = &s
	}
	return c.Server.Scheduler
}

// count reads an integer of at least 0.
func count(field func(*Config) *uint) setting {
	return func(d *decoder, path string, n *node) {
		v, ok := d.whole(path, n)
		switch {
		case !ok:
		case v < 0 || v > math.MaxInt32:
			d.addf(n.pos, path, "must be between 0 and %[2]d, got %[1]d", v, math.MaxInt32)
		default:
			*field(d.to) = uint(v)
		}
	}
}

// schedulerConfig validates the settings like those of an operator.
func (d *decoder) schedulerConfig() {
	s := d.to.Server.Scheduler
	if s == nil {
		return
	}
	keys := map[string]string{"SchedulerAlgorithm": "scheduler_algorithm", "MaxStartsPerNode": "max_starts_per_node"}
	if found, ok := errors.AsType[berth.Problems](validate.SchedulerConfig(s)); ok {
		for _, p := range found {
			d.fail(decode.Join(schedulerPath, keys[p.Path]), "%s", p.Text)
		}
	}
}
