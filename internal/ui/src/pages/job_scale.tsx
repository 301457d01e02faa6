// Changing the count of a group, after a dry run of it.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, enc, get, session, write } from '../api'
import type { Job, Metric, TaskGroup } from '../types'
import { Dialog, plural, useTask } from '../ui'
import type { JobView } from './job'

export interface Planned { Diff: any; Changes: Record<string, { Created: number; Destroyed: number; Updated: number; Migrated: number; Kept: number; Queued: number; Evicted: number }> | null; FailedTGAllocs: Record<string, Metric> | null; Warnings: string; JobModifyIndex: number; Annotations: { PreemptedAllocs: { ID: string; Name: string; JobID: string }[] | null } | null; NextPeriodicLaunch: string }

export function planText(p: Planned): string[] {
  const out: string[] = []
  for (const [g, c] of Object.entries(p.Changes ?? {})) {
    const parts = [c.Created && `${c.Created} created`, c.Destroyed && `${c.Destroyed} stopped`, c.Updated && `${c.Updated} updated in place`, c.Kept && `${c.Kept} unchanged`, c.Queued && `${c.Queued} cannot be placed now and will wait`, c.Evicted && `${c.Evicted} of other jobs preempted`].filter(Boolean)
    out.push(`${g}: ${parts.join(', ') || 'nothing changes'}`)
  }
  return out.length ? out : ['Nothing changes.']
}

export function ScaleButton({ v, group }: { v: JobView; group: TaskGroup }) {
  const [open, setOpen] = useState(false)
  if (v.job.Type === 'system' || v.job.Type === 'sysbatch' || v.job.Type === 'stream' || v.job.Stop) return null
  const may = session.may('scale-job', v.ns) || session.may('submit-job', v.ns)
  return <><button class="btn small" disabled={!may} title={may ? undefined : 'Your token lacks scale-job.'} onClick={() => setOpen(true)}>Scale…</button>{open && <Scale v={v} group={group} onClose={() => setOpen(false)} />}</>
}

function Scale({ v, group, onClose }: { v: JobView; group: TaskGroup; onClose: () => void }) {
  const [count, setCount] = useState(group.Count)
  const [plan, setPlan] = useState<Planned | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const task = useTask()
  useEffect(() => {
    if (!session.may('submit-job', v.ns)) return
    let over = false
    setPlan(null)
    setError(null)
    const t = setTimeout(async () => {
      try {
        const job = (await get<Job>('/v1/job/' + enc(v.id), { namespace: v.ns })).data
        for (const g of job.TaskGroups ?? []) if (g.Name === group.Name) g.Count = count
        const p = await write<Planned>('PUT', `/v1/job/${enc(v.id)}/plan`, { Job: job, Diff: false }, { namespace: v.ns })
        if (!over) setPlan(p)
      } catch (e) { if (!over && e instanceof ApiError) setError(e) }
    }, 250)
    return () => { over = true; clearTimeout(t) }
  }, [count])
  return <Dialog title={`Scale ${group.Name}`} confirm={`Scale to ${count}`} busy={task.busy} error={task.error ?? error} onClose={onClose}
    onConfirm={async () => { if (await task.run(() => write('PUT', `/v1/job/${enc(v.id)}/scale`, { Count: count, Target: { Group: group.Name }, Message: 'scaled in the web UI' }, { namespace: v.ns }), `${group.Name} is scaled to ${count}`)) { v.refresh(); onClose() } }}>
    <label class="field">Instances<input type="number" min={0} max={100000} value={count} onInput={(e) => setCount(Math.max(0, Number(e.currentTarget.value) || 0))} /></label>
    <p class="dim small">Now: {plural(group.Count, 'instance')}.{group.Scaling && ` The job allows ${group.Scaling.Min} to ${group.Scaling.Max}.`}</p>
    {plan && <div><h3>This will happen</h3><ul style={{ margin: '4px 0 0' }}>{planText(plan).map((l) => <li key={l}>{l}</li>)}</ul></div>}
  </Dialog>
}
