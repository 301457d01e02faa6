package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The jobs of a cluster. Those that stand are registered once and are there in
// every round; each round has registers of its own.

// object is a JSON object of the API.
type object = map[string]any

// job is a job of one group with one task on real or simulated nodes.
func job(id, kind, class string, count int, task object, more object) object {
	j := object{
		"ID": id, "Name": id, "Type": kind,
		"Constraints": []object{{"LTarget": "${node.class}", "RTarget": class, "Operand": "="}},
		"TaskGroups":  []object{{"Name": "g", "Count": count, "Tasks": []object{task}}},
	}
	for k, v := range more {
		j[k] = v
	}
	return j
}

// sh is a task that runs a line of shell.
func sh(line string) object {
	return object{
		"Name": "main", "Driver": "raw_exec", "Config": object{"command": "/bin/sh", "args": []string{"-c", line}},
		"Resources": object{"CPU": 50, "MemoryMB": 16},
	}
}

const (
	serviceJob  = "service"  // on real nodes; updated in every round
	herdJob     = "herd"     // on simulated nodes
	workJob     = "work"     // parameterized: dispatched
	periodicJob = "periodic" // launched every other second
)

// serviceCount is how many instances the service has.
const serviceCount = 3

// service returns the service job in a version. Registering another version
// updates its tasks.
func service(version string) object {
	return job(serviceJob, "service", "real", serviceCount, sh("exec sleep 100000"), object{
		"Meta":   object{"version": version},
		"Update": object{"MaxParallel": 3, "MinHealthyTime": int64(200 * time.Millisecond), "HealthCheck": "task_states", "HealthyDeadline": int64(time.Minute), "ProgressDeadline": int64(2 * time.Minute)},
	})
}

// registerJob returns a job that stands for a register. Its value is in the
// job's meta.
func registerJob(id, value string) object {
	return job(id, "service", "sim", 0, sh("exec sleep 100000"), object{"Meta": object{"value": value}})
}

// registerStanding registers the jobs that run during all rounds, and waits
// until they run.
func (c *cluster) registerStanding(ctx context.Context) error {
	herd := min(len(c.fleet.nodes), 30)
	for _, j := range []object{
		service("0"),
		job(herdJob, "service", "sim", herd, sh("exec sleep 100000"), nil),
		job(workJob, "batch", "real", 1, sh("true"), object{"ParameterizedJob": object{"Payload": "optional"}}),
		job(periodicJob, "batch", "real", 0, sh("true"), object{"Periodic": object{"Enabled": true, "SpecType": "cron", "Spec": "*/2 * * * * * *", "TimeZone": "UTC"}}),
	} {
		if _, err := c.call(ctx, c.servers[0], "PUT", "/v1/jobs", object{"Job": j}, nil); err != nil {
			return err
		}
	}
	return until(ctx, startLimit, "the standing jobs run", func() string {
		return c.runs(ctx, serviceJob, serviceCount) + c.runs(ctx, herdJob, herd)
	})
}

// stub is an allocation in a list.
type stub struct {
	ID, NodeID, Name, ClientStatus, DesiredStatus string
	JobVersion                                    uint64
}

// runs returns "" if a job has this many running instances, else what is
// missing.
func (c *cluster) runs(ctx context.Context, id string, count int) string {
	var list []stub
	if err := c.get(ctx, c.anyone(), "/v1/job/"+id+"/allocations", &list); err != nil {
		return err.Error()
	}
	n := 0
	for _, a := range list {
		if a.ClientStatus == "running" && a.DesiredStatus == "run" {
			n++
		}
	}
	if n != count {
		return fmt.Sprintf("%d of %d instances of %s run; ", n, count, id)
	}
	return ""
}

// purgeAll deletes all jobs and waits until no task is left.
func (c *cluster) purgeAll(ctx context.Context) error {
	for _, id := range []string{periodicJob, workJob, serviceJob, herdJob} {
		if _, err := c.call(ctx, c.anyone(), "DELETE", "/v1/job/"+id+"?purge=true", nil, nil); err != nil {
			return err
		}
	}
	return until(ctx, endLimit, "all tasks and their supervisors have ended", func() string {
		var left []string
		for _, p := range leftovers() {
			if !strings.Contains(p, c.opts.berth+" agent ") {
				left = append(left, p)
			}
		}
		return strings.Join(left, "; ")
	})
}
