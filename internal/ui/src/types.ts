// The shapes of the API that pages share. Fields that no page reads are left out.
import type { Group } from './pages/jobs'

export interface TaskEvent { Type: string; Time: number; DisplayMessage: string; Details: Record<string, string> | null; Message: string }
export interface TaskState { State: string; Failed: boolean; Restarts: number; LastRestart: string; StartedAt: string; FinishedAt: string; Events: TaskEvent[] | null }
export interface AllocStub {
  ID: string; EvalID: string; Name: string; Namespace: string; NodeID: string; NodeName: string; JobID: string; JobType: string; JobVersion: number; TaskGroup: string
  DesiredStatus: string; DesiredDescription: string; ClientStatus: string; ClientDescription: string; TaskStates: Record<string, TaskState> | null
  DeploymentStatus: { Healthy: boolean | null; Timestamp: string; Canary: boolean } | null; FollowupEvalID: string; NextAllocation: string
  CreateTime: number; ModifyTime: number; CreateIndex: number
}
export interface Alloc extends AllocStub {
  Job: Job | null; PreviousAllocation: string; DeploymentID: string; PreemptedByAllocation: string
  AllocatedResources: { Tasks: Record<string, { Cpu: { CpuShares: number; ReservedCores?: number[] }; Memory: { MemoryMB: number; MemoryMaxMB: number } }>; Shared: { DiskMB: number; Ports: { Label: string; Value: number; To: number; HostIP: string }[] | null } } | null
  RescheduleTracker: { Events: { RescheduleTime: number; PrevAllocID: string; PrevNodeID: string; Delay: number }[] | null } | null
}
export interface Task { Name: string; Driver: string; Config: any; Resources: { CPU: number; MemoryMB: number; Cores: number } | null; Lifecycle: { Hook: string; Sidecar: boolean } | null }
export interface TaskGroup { Name: string; Count: number; Tasks: Task[]; Scaling: { Min: number; Max: number; Enabled: boolean } | null; Constraints: any[] | null; EphemeralDisk: { SizeMB: number } | null; Networks: any[] | null }
export interface Job {
  ID: string; Name: string; Namespace: string; Type: string; Priority: number; NodePool: string; Datacenters: string[]; Stop: boolean; Version: number; Stable: boolean; SubmitTime: number; ParentID: string; UID: string
  Status: string; StatusDescription: string; TaskGroups: TaskGroup[] | null; Constraints: any[] | null; Meta: Record<string, string> | null; JobModifyIndex: number; CreateIndex: number; VersionTag: { Name: string; Description: string } | null
  Periodic: { Specs: string[] | null; Spec: string; TimeZone: string; Enabled: boolean } | null; ParameterizedJob: { Payload: string; MetaRequired: string[] | null; MetaOptional: string[] | null } | null; Dispatched: boolean
  Phase?: string; Deletion?: any
}
export interface Summary { Summary: Record<string, Group>; Children: { Pending: number; Running: number; Dead: number } | null }
export interface Shortage { Dimension: string; Unit: string; Nodes: number; Wanted: number; Free: number; Holder: string }
export interface Metric { NodesEvaluated: number; NodesFiltered: number; NodesExhausted: number; ConstraintFiltered: Record<string, number> | null; DimensionExhausted: Record<string, number> | null; Shortages: Shortage[] | null; QuotaExhausted: string[] | null; CoalescedFailures: number }
export interface Eval {
  ID: string; Namespace: string; Priority: number; Type: string; TriggeredBy: string; Cause: { Kind: string; ID: string } | null; JobID: string; NodeID: string; DeploymentID: string; Status: string; StatusDescription: string; QuasiStatus: string
  WaitUntil: string; NextEval: string; PreviousEval: string; BlockedEval: string; SupersededBy: string; FailedTGAllocs: Record<string, Metric> | null; QueuedAllocations: Record<string, number> | null; QuotaLimitReached: string
  Timeline: { Enqueued: number; Dequeued: number; Planned: number; Applied: number; Acked: number; Deliveries: number; Refused: number }; CreateTime: number; ModifyTime: number; CreateIndex: number; ModifyIndex: number; SnapshotIndex: number
}
export interface TracedAlloc { ID: string; Name: string; NodeID: string; NodeName: string; ClientStatus: string; Why: string }
export interface TracedEval extends Eval { Depth: number; Parent: string; Link: string; Placed: TracedAlloc[] | null; Updated: TracedAlloc[] | null; Stopped: TracedAlloc[] | null }
export interface Trace { JobID: string; JobStatus: string; Evals: TracedEval[] | null }
export interface Change {
  Text: string; Stopping?: number; Less?: { Dimension: string; Unit: string; From: number; To: number; Tasks: Record<string, number> | null }; Drop?: string[]; Datacenter?: string; NodePool?: string
  Port?: { Port: number; NodeName: string; Holder: string; AllocID: string; JobID: string; Dynamic: boolean }; Nodes?: any; Present?: { NodeID: string; NodeName: string; Eligible: boolean; Drivers: string[] | null }; Misspelt?: { Attribute: string; Instead: string }; And?: Change
}
export interface GroupWhy {
  Group: string; Wanted: number; Live: number; Restarting?: number; Finished: number; GaveUp: number; Later: number; Missing: number; Summary: string; Quota: string[] | null; Nodes: number; Filtered: number; Exhausted: number
  Conditions: Record<string, number> | null; Unknown?: { Attribute: string; Similar: string }[]; Shortages: Shortage[] | null; Nearest: { NodeID: string; Name: string; NodeClass: string; Unmet: string[] | null; Shortages: Shortage[] | null }[] | null; Changes: Change[] | null
  Allocs: { AllocID: string; Name: string; NodeID: string; NodeName: string; Score: number; Text: string }[] | null
}
export interface Explanation { Verdict: string; Summary: string; JobStatus: string; Waits: { EvalID: string; TriggeredBy: string; Status: string; QuasiStatus: string; Until: string; Why: string }[] | null; Groups: GroupWhy[] | null; Placed: number; Updated: number; Stopped: number; Failed: Record<string, Metric> | null }
export interface DeploymentState { PlacedCanaries: string[] | null; AutoRevert: boolean; AutoPromote: boolean; RequireProgressBy: string; Promoted: boolean; DesiredCanaries: number; DesiredTotal: number; PlacedAllocs: number; HealthyAllocs: number; UnhealthyAllocs: number }
export interface Deployment { ID: string; Namespace: string; JobID: string; JobVersion: number; TaskGroups: Record<string, DeploymentState>; Status: string; StatusDescription: string; EvalID: string; CreateTime: number; ModifyTime: number }
export interface FieldDiff { Type: string; Name: string; Old: string; New: string; Annotations: string[] | null }
export interface ObjectDiff { Type: string; Name: string; Fields: FieldDiff[] | null; Objects: ObjectDiff[] | null }
export interface JobDiff {
  Type: string; ID: string; Fields: FieldDiff[] | null; Objects: ObjectDiff[] | null
  TaskGroups: (ObjectDiff & { Tasks: (ObjectDiff & { Annotations: string[] | null })[] | null; Updates: Record<string, number> | null })[] | null
}
