package histories

import (
	"fmt"
	"time"

	"berth"
)

// job draws a job, of a type that it has already if that is not empty.
func (h *history) job(k berth.JobKey, typ string) *berth.Job {
	j := &berth.Job{
		Region: berth.DefaultRegion, Namespace: k.Namespace, ID: k.ID, Name: string(k.ID), Type: berth.TypeService,
		Priority: 1 + h.chance.IntN(100), Datacenters: []string{"*"}, NodePool: berth.DefaultNodePool,
		AllAtOnce: h.chance.IntN(8) == 0,
	}
	switch h.chance.IntN(12) {
	case 0, 1, 2:
		j.Type = berth.TypeBatch
	case 3, 4:
		j.Type = berth.TypeSystem
	case 5:
		j.Type = berth.TypeSysbatch
	}
	if typ != "" {
		j.Type = typ
	}
	if h.chance.IntN(8) == 0 {
		j.Datacenters = []string{"dc2"}
	}
	for i := range 1 + h.chance.IntN(2) {
		g := h.taskGroup(i)
		if j.PerNode() {
			h.everywhere(j, g)
			j.TaskGroups = append(j.TaskGroups, g)
			continue
		}
		if j.Type == berth.TypeService {
			g.Update, g.Migrate = h.update(), h.migrate()
		}
		if h.chance.IntN(6) == 0 {
			g.Spreads = []berth.Spread{{Attribute: "${meta.rack}", Weight: 50}}
		}
		j.TaskGroups = append(j.TaskGroups, g)
	}
	return j
}

// everywhere makes a group one of a job that runs on every node.
func (h *history) everywhere(j *berth.Job, g *berth.TaskGroup) {
	g.ReschedulePolicy = nil
	g.Count = min(g.Count, 1)
	if j.Type == berth.TypeSystem {
		g.Update = &berth.UpdateStrategy{MaxParallel: h.chance.IntN(3), Stagger: time.Duration(10+h.chance.IntN(30)) * time.Second}
		if g.Update.MaxParallel > 0 && h.chance.IntN(2) == 0 {
			g.Update.Canary, g.Update.AutoPromote = 1+h.chance.IntN(100), h.chance.IntN(2) == 0
			g.Update.ProgressDeadline = 3 * time.Minute // without it, canaries wait as long as their nodes are away
		}
	}
}

func (h *history) taskGroup(i int) *berth.TaskGroup {
	restart := berth.RestartPolicy{Attempts: 2, Interval: time.Minute, Mode: berth.RestartFail}
	g := &berth.TaskGroup{
		Name: fmt.Sprint("g", i), Count: h.chance.IntN(4), RestartPolicy: &restart, ReschedulePolicy: h.policy(),
		EphemeralDisk: &berth.EphemeralDisk{SizeMB: 100},
		Tasks: []*berth.Task{{
			Name: "task", Driver: "mock_driver", RestartPolicy: &restart, LogConfig: &berth.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
			Config:    map[string]any{"exit_code": int64(h.chance.IntN(3))},
			Resources: &berth.Resources{CPU: 100 * (1 + h.chance.IntN(12)), MemoryMB: 100 * (1 + h.chance.IntN(12))},
		}},
	}
	switch h.chance.IntN(8) {
	case 0:
		g.Constraints = []berth.Constraint{{LTarget: "${meta.rack}", Operand: berth.OpEqual, RTarget: "r1"}}
	case 1:
		g.Constraints = []berth.Constraint{{Operand: berth.OpDistinctHosts}}
	case 2:
		g.Constraints = []berth.Constraint{{LTarget: "${node.unique.name}", Operand: berth.OpNotEqual, RTarget: "n1"}}
	}
	if h.chance.IntN(2) == 0 {
		g.Disconnect = &berth.DisconnectStrategy{
			LostAfter: time.Duration(max(0, h.chance.IntN(600)-60)) * time.Second, Replace: h.chance.IntN(8) > 0,
			Reconcile: []string{berth.KeepBestScore, berth.KeepOriginal, berth.KeepReplacement, berth.KeepLongestRunning}[h.chance.IntN(4)],
		}
	}
	switch h.chance.IntN(6) {
	case 0:
		g.Networks = []berth.NetworkResource{{Mode: "host", ReservedPorts: []berth.Port{{Label: "admin", Value: 8000 + h.chance.IntN(3)}}}}
	case 1:
		g.Networks = []berth.NetworkResource{{Mode: "host", DynamicPorts: []berth.Port{{Label: "http"}}}}
	}
	return g
}

func (h *history) policy() *berth.ReschedulePolicy {
	switch h.chance.IntN(4) {
	case 0:
		return &berth.ReschedulePolicy{}
	case 1:
		return &berth.ReschedulePolicy{Attempts: 1 + h.chance.IntN(2), Interval: 10 * time.Minute, Delay: 5 * time.Second, DelayFunction: berth.DelayConstant}
	}
	return &berth.ReschedulePolicy{
		Unlimited: true, Delay: time.Duration(h.chance.IntN(30)) * time.Second, DelayFunction: berth.DelayExponential, MaxDelay: 2 * time.Minute,
	}
}
