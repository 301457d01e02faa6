// Children of periodic and parameterized jobs, and the form that dispatches one.
import { useState } from 'preact/hooks'
import { enc, quoted, write } from '../api'
import { go, href, to } from '../router'
import { PagedTable } from '../table'
import { Dialog, Empty, Panel, Squares, Status, Time, plural, useTask } from '../ui'
import type { JobView } from './job'
import { jobState, squaresOf, sumOf, type JobStub } from './jobs'

export function Children({ v }: { v: JobView }) {
  const c = v.summary?.Children
  return <Panel title={<>Children <span class="dim small" style={{ fontWeight: 400 }}>{c && `${c.Running} running, ${c.Pending} pending, ${c.Dead} finished`}</span></>} flush>
    <PagedTable<JobStub> label="Children" path="/v1/jobs" params={{ namespace: v.ns, prefix: v.id + '/', filter: `ParentID == ${quoted(v.id)}`, reverse: true }} watch={['Job:' + v.id]} short rowKey={(j) => j.ID} rowTo={(j) => to.job(j.Namespace, j.ID)}
      empty={<Empty title="No child yet" command={v.job.Periodic ? `berth job periodic force ${v.id}` : `berth job dispatch ${v.id}`}>{v.job.Periodic ? 'The next is launched by its schedule, or now:' : 'Dispatch one:'}</Empty>}
      columns={[{ title: 'Child', cell: (j) => <a href={href(to.job(j.Namespace, j.ID))}>{j.ID.slice(v.id.length + 1)}</a> }, { title: 'State', cell: (j) => { const [s, t] = jobState(j, sumOf(j.JobSummary?.Summary)); return <Status state={s} text={t} /> } },
        { title: 'Allocations', cell: (j) => <Squares counts={squaresOf(sumOf(j.JobSummary?.Summary))} /> }, { title: 'Submitted', class: 'p2', cell: (j) => <Time at={j.SubmitTime} /> }]} />
  </Panel>
}

export function Dispatch({ v, onClose }: { v: JobView; onClose: () => void }) {
  const p = v.job.ParameterizedJob!
  const keys = [...(p.MetaRequired ?? []).map((k) => [k, true] as const), ...(p.MetaOptional ?? []).map((k) => [k, false] as const)]
  const [meta, setMeta] = useState<Record<string, string>>({})
  const [payload, setPayload] = useState('')
  const task = useTask()
  const missing = keys.filter(([k, must]) => must && !meta[k]).map(([k]) => k)
  return <Dialog title={`Dispatch ${v.id}`} confirm="Dispatch" busy={task.busy || missing.length > 0 || (p.Payload === 'required' && !payload)} error={task.error} onClose={onClose}
    onConfirm={() => task.run(async () => {
      const bytes = new TextEncoder().encode(payload)
      let bin = ''
      for (const b of bytes) bin += String.fromCharCode(b)
      const r = await write<{ DispatchedJobID: string }>('PUT', `/v1/job/${enc(v.id)}/dispatch`, { JobID: v.id, Meta: Object.fromEntries(Object.entries(meta).filter(([, x]) => x !== '')), Payload: payload ? btoa(bin) : undefined }, { namespace: v.ns })
      onClose()
      go(to.job(v.ns, r.DispatchedJobID))
    }, 'Dispatched')}>
    {keys.length === 0 && p.Payload === 'forbidden' && <p>It takes no parameters.</p>}
    {keys.map(([k, must]) => <label class="field" key={k}>{k}{must ? '' : ' (optional)'}<input type="text" value={meta[k] ?? ''} onInput={(e) => setMeta({ ...meta, [k]: e.currentTarget.value })} /></label>)}
    {p.Payload !== 'forbidden' && <label class="field">Payload{p.Payload === 'required' ? '' : ' (optional)'}<textarea rows={5} class="mono" value={payload} onInput={(e) => setPayload(e.currentTarget.value)} /></label>}
    {missing.length > 0 && <p class="small dim">{plural(missing.length, 'value is', 'values are')} missing: {missing.join(', ')}.</p>}
  </Dialog>
}
