// What runs of a job: each group with its instances, the deployment, and the last
// words of what failed.
import { useEffect, useState } from 'preact/hooks'
import { enc, session, text } from '../api'
import { plain } from '../ansi'
import { useQuery } from '../live'
import { href, to } from '../router'
import type { AllocStub } from '../types'
import { Empty, ErrorBox, Loading, Panel, Status, Time, plural } from '../ui'
import { DeploymentPanel } from './deployment'
import type { JobView } from './job'
import { ScaleButton } from './job_scale'

// allocState says what is true of an allocation.
export function allocState(a: AllocStub): [string, string] {
  if (a.DesiredStatus !== 'run' && (a.ClientStatus === 'running' || a.ClientStatus === 'pending')) return ['stop', a.DesiredStatus === 'evict' ? 'preempted' : 'stopping']
  const restarting = Object.values(a.TaskStates ?? {}).find((t) => t.State === 'pending' && t.Restarts > 0)
  if (restarting) return ['restarting', 'restarting']
  if (a.ClientStatus === 'running' && a.DeploymentStatus?.Healthy === false) return ['unhealthy', 'running, unhealthy']
  if (a.ClientStatus === 'complete' && a.JobType !== 'batch' && a.JobType !== 'sysbatch') return ['stopped', 'stopped']
  return [a.ClientStatus, a.ClientStatus === 'pending' ? 'starting' : a.ClientStatus === 'complete' ? 'finished' : a.ClientStatus]
}
export function health(a: AllocStub): string {
  const h = a.DeploymentStatus
  const canary = h?.Canary ? 'canary, ' : ''
  return h ? canary + (h.Healthy === null ? 'health awaited' : h.Healthy ? 'healthy' : 'unhealthy') : ''
}

const most = 60 // instances of a group that are drawn

export function StatusPanel({ v }: { v: JobView }) {
  const { ns, id } = v
  const allocs = useQuery<AllocStub[]>(`/v1/job/${enc(id)}/allocations`, { namespace: ns, per_page: 1000, reverse: true }, ['Allocation:' + id])
  const list = allocs.data ?? []
  const live = list.filter((a) => a.DesiredStatus === 'run' || a.ClientStatus === 'running' || a.ClientStatus === 'pending')
  const failed = list.filter((a) => a.ClientStatus === 'failed').sort((a, b) => b.ModifyTime - a.ModifyTime)[0]
  const parent = v.job.Periodic || v.job.ParameterizedJob
  return <div class="stack">
    {v.deployment && v.job.Stop === false && v.deployment.JobVersion === v.job.Version && v.deployment.Status !== 'successful' && <DeploymentPanel d={v.deployment} job={v.job} />}
    {failed && <LastWords alloc={failed} />}
    <ErrorBox error={allocs.error} retry={allocs.refresh} />
    {allocs.loading && <Loading what="allocations" />}
    {!parent && (v.job.TaskGroups ?? []).map((g) => {
      const of = live.filter((a) => a.TaskGroup === g.Name).sort((a, b) => (a.Name < b.Name ? -1 : a.Name > b.Name ? 1 : b.CreateIndex - a.CreateIndex))
      const w = v.why?.Groups?.find((x) => x.Group === g.Name)
      return <Panel key={g.Name} title={<>{g.Name} <span class="dim" style={{ fontWeight: 400 }}>{w?.Summary}</span></>} actions={<>{w && w.Missing > 0 && <a class="btn small" href={href(to.job(ns, id, 'why'))}>Why?</a>}<ScaleButton v={v} group={g} /></>}>
        {of.length === 0 ? <Empty title={v.job.Stop ? 'The job is stopped' : 'Nothing of this group runs'}>{!v.job.Stop && w && w.Missing > 0 && <a href={href(to.job(ns, id, 'why'))}>See what is missing, and what would help</a>}</Empty> :
          <div class="instances">{of.slice(0, most).map((a) => {
            const [s, t] = allocState(a)
            return <a class="instance" key={a.ID} href={href(to.alloc(a.ID))}>
              <span class="row" style={{ justifyContent: 'space-between' }}><Status state={s} text={t} /><span class="dim small">{a.Name.slice(a.Name.lastIndexOf('['))}</span></span>
              <span class="small dim">{a.NodeName || 'no node'}{health(a) && ' · ' + health(a)}</span>
              <span class="small dim">v{a.JobVersion} · <Time at={a.CreateTime} />{restarts(a) > 0 && ` · ${plural(restarts(a), 'restart')}`}</span>
            </a>
          })}</div>}
        {of.length > most && <p class="small dim">{most} of {of.length} are drawn. <a href={href(to.job(ns, id, 'allocations'))}>All allocations</a></p>}
      </Panel>
    })}
  </div>
}
export function restarts(a: AllocStub) { return Object.values(a.TaskStates ?? {}).reduce((n, t) => n + (t.Restarts || 0), 0) }

// LastWords shows the end of what the failed task of an allocation wrote to
// stderr.
function LastWords({ alloc }: { alloc: AllocStub }) {
  const [name, state] = Object.entries(alloc.TaskStates ?? {}).find(([, t]) => t.Failed) ?? []
  const [log, setLog] = useState<{ kind: string; text: string } | null>(null)
  const [error, setError] = useState('')
  useEffect(() => {
    if (!name || !session.may('read-logs', alloc.Namespace)) return
    const own = new AbortController()
    const read = (kind: string) => text('/v1/client/fs/logs/' + alloc.ID, { task: name, type: kind, plain: true, origin: 'end', offset: 3000 }, own.signal)
    read('stderr').then(async (t) => setLog(t.trim() ? { kind: 'stderr', text: t } : { kind: 'stdout', text: await read('stdout') })).catch((e) => { if (!own.signal.aborted) setError(e.message) })
    return () => own.abort()
  }, [alloc.ID, name])
  if (!name) return null
  const last = [...(state?.Events ?? [])].reverse().find((e) => e.Type === 'Terminated' || e.Type.includes('Failure'))
  return <Panel title={<>The last failure: task {name} of <a href={href(to.alloc(alloc.ID))}>{alloc.Name}</a></>} actions={<a class="btn small" href={href(to.alloc(alloc.ID, 'logs', name))}>All logs</a>}>
    <div class="stack8">
      {last && <p><Status state="failed" text={last.DisplayMessage || last.Type} /> <span class="dim small"><Time at={last.Time} /> on {alloc.NodeName}</span></p>}
      {log && log.text.trim() !== '' && <><div class="small dim">The last lines of {log.kind}:</div><pre class="codebox short soft" tabIndex={0}>{plain(log.text).split('\n').slice(-12).join('\n')}</pre></>}
      {log && log.text.trim() === '' && <p class="dim">It wrote nothing.</p>}
      {error && <p class="dim small">Its logs cannot be read: {error}</p>}
    </div>
  </Panel>
}
