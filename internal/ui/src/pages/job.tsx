// A job: what is true of it now, why, and how it came to that.
import { useState } from 'preact/hooks'
import { enc, session, write } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { go, href, to } from '../router'
import type { Deployment, Explanation, Job, Summary } from '../types'
import { Action, Dialog, ErrorBox, Loading, Page, Squares, Status, Tabs, plural, toast, useTask } from '../ui'
import { Allocations } from './job_allocs'
import { Children, Dispatch } from './job_children'
import { Definition } from './job_definition'
import { JobLogs } from './job_logs'
import { StatusPanel } from './job_status'
import { Ownership } from './job_tree'
import { Timeline } from './job_timeline'
import { Versions } from './job_versions'
import { Why } from './job_why'
import { jobState, squaresOf, sumOf } from './jobs'
import { JobServices, Evaluations } from './job_more'

export interface JobView { ns: string; id: string; job: Job; summary: Summary | undefined; why: Explanation | undefined; deployment: Deployment | null | undefined; refresh: () => void }

export default function JobPage({ place }: PageProps) {
  const id = place.parts[1] ?? '', tab = place.parts[2] ?? 'status', ns = place.query.get('ns') ?? 'default'
  const base = '/v1/job/' + enc(id), params = { namespace: ns }
  const topics = ['Job:' + id, 'Allocation:' + id, 'Evaluation:' + id, 'Deployment:' + id]
  const job = useQuery<Job>(base, params, ['Job:' + id, 'Evaluation:' + id])
  const summary = useQuery<Summary>(base + '/summary', params, topics)
  const why = useQuery<Explanation>(base + '/explain', params, topics)
  const deployment = useQuery<Deployment | null>(base + '/deployment', params, ['Deployment:' + id, 'Allocation:' + id])
  const j = job.data
  if (!j) return <Page title={id} crumbs={[['Jobs', '/jobs']]}>{job.error ? <ErrorBox error={job.error} retry={job.refresh} /> : <Loading what="the job" />}</Page>
  const t = sumOf(summary.data?.Summary)
  const [state, text] = jobState(j, t)
  const parent = j.Periodic || j.ParameterizedJob
  const view: JobView = { ns, id, job: j, summary: summary.data, why: why.data, deployment: deployment.data, refresh: () => { job.refresh(); why.refresh(); deployment.refresh() } }
  const at = (name: string) => to.job(ns, id, name === 'status' ? '' : name)
  const tabs = [
    { id: 'status', name: 'Status' }, { id: 'why', name: 'Why' }, { id: 'timeline', name: 'Timeline' }, ...(parent ? [{ id: 'children', name: 'Children' }] : []),
    { id: 'allocations', name: 'Allocations' }, ...(parent ? [] : [{ id: 'logs', name: 'Logs' }]), { id: 'versions', name: 'Versions' }, { id: 'evaluations', name: 'Evaluations' }, { id: 'services', name: 'Services' }, { id: 'objects', name: 'Objects' }, { id: 'definition', name: 'Definition' },
  ].map((x) => ({ ...x, to: at(x.id) }))
  const crumbs: [string, string][] = [['Jobs', '/jobs']]
  if (j.ParentID) crumbs.push([j.ParentID, to.job(ns, j.ParentID)])
  return <Page title={j.Name || j.ID} crumbs={crumbs} answer={answer(why.data?.Summary, j)} command={commandOf(tab, ns, id)}
    status={<><Status state={state} text={text} pill /><Squares counts={squaresOf(t)} /></>} actions={<Actions v={view} />}>
    <div class="row small dim">{j.Name !== j.ID && <span class="mono">{j.ID}</span>}<span>{j.Type}</span><span>·</span><span>namespace {j.Namespace}</span><span>·</span><span>pool <a href={href('/nodes?pool=' + enc(j.NodePool))}>{j.NodePool}</a></span><span>·</span><span>priority {j.Priority}</span><span>·</span><span>version {j.Version}</span>{j.Type === 'stream' && <a href={href('/stream/' + enc(id) + '?ns=' + enc(ns))}>Graph of the stream job</a>}</div>
    <Tabs tabs={tabs} at={tab} />
    {tab === 'status' && (parent ? <><StatusPanel v={view} /><Children v={view} /></> : <StatusPanel v={view} />)}
    {tab === 'why' && <><ErrorBox error={why.error} retry={why.refresh} /><Why v={view} /></>}
    {tab === 'timeline' && <Timeline ns={ns} id={id} />}
    {tab === 'children' && <Children v={view} />}
    {tab === 'allocations' && <Allocations v={view} />}
    {tab === 'logs' && <JobLogs v={view} />}
    {tab === 'versions' && <Versions v={view} />}
    {tab === 'evaluations' && <Evaluations v={view} />}
    {tab === 'services' && <JobServices v={view} />}
    {tab === 'objects' && <Ownership v={view} />}
    {tab === 'definition' && <Definition v={view} />}
  </Page>
}

// answer drops the name of the job from the server's sentence: it is the title.
function answer(summary: string | undefined, j: Job) {
  if (!summary) return j.StatusDescription || '\u00a0'
  const start = `Job ${JSON.stringify(j.ID)}: `
  const s = summary.startsWith(start) ? summary.slice(start.length) : summary
  return s.charAt(0).toUpperCase() + s.slice(1) + (s.endsWith('.') ? '' : '.')
}

function commandOf(tab: string, ns: string, id: string) {
  const what: Record<string, string> = { why: 'job explain', timeline: 'job trace', allocations: 'job allocs', versions: 'job history -p', definition: 'job inspect', objects: 'job tree', logs: 'alloc logs -job', evaluations: 'job status -evals' }
  return `berth ${what[tab] ?? 'job status'}${ns === 'default' ? '' : ' -namespace ' + ns} ${id}`
}

function Actions({ v }: { v: JobView }) {
  const { ns, id, job } = v
  const [open, setOpen] = useState('')
  const close = () => setOpen('')
  return <div class="row">
    {job.ParameterizedJob && <Action need="dispatch-job" ns={ns} onClick={() => setOpen('dispatch')}>Dispatch…</Action>}
    {job.Periodic && <Action need="force-periodic-job" ns={ns} onClick={() => setOpen('force')}>Launch now…</Action>}
    {!job.Periodic && !job.ParameterizedJob && !job.Stop && <Action need="submit-job" ns={ns} onClick={() => setOpen('evaluate')}>Evaluate…</Action>}
    <Action need="submit-job" ns={ns} onClick={() => go(`/run?job=${enc(id)}&ns=${enc(ns)}`)}>{job.Stop ? 'Start again' : 'Edit'}</Action>
    {!job.Stop && <Action need="submit-job" ns={ns} tone="bad" onClick={() => setOpen('stop')}>Stop…</Action>}
    {job.Stop && <Action need="submit-job" ns={ns} tone="bad" onClick={() => setOpen('purge')}>Delete…</Action>}
    {open === 'dispatch' && <Dispatch v={v} onClose={close} />}
    {(open === 'stop' || open === 'purge') && <StopDialog v={v} purge={open === 'purge'} onClose={close} />}
    {open === 'force' && <Confirm title={`Launch ${id} now`} text="A child of this job is launched at once, whatever its schedule says." confirm="Launch" run={async () => { const r = await write<{ LaunchedJobID: string }>('PUT', `/v1/job/${enc(id)}/periodic/force`, {}, { namespace: ns }); if (r.LaunchedJobID) go(to.job(ns, r.LaunchedJobID)) }} done="Launched" onClose={close} />}
    {open === 'evaluate' && <Evaluate v={v} onClose={close} />}
  </div>
}

function Evaluate({ v, onClose }: { v: JobView; onClose: () => void }) {
  const [force, setForce] = useState(false)
  return <Confirm title={`Evaluate ${v.id} again`} confirm="Evaluate" done="A new evaluation was created" onClose={onClose}
    text="The scheduler looks at the job once more. What runs goes on."
    run={() => write('PUT', `/v1/job/${enc(v.id)}/evaluate`, { JobID: v.id, EvalOptions: { ForceReschedule: force } }, { namespace: v.ns })}>
    <label class="check"><input type="checkbox" checked={force} onChange={(e) => setForce(e.currentTarget.checked)} />Replace failed allocations at once, without waiting for their delay</label>
  </Confirm>
}

export function Confirm({ title, text, confirm, run, done, onClose, tone, children }: { title: string; text?: any; confirm: string; run: () => Promise<unknown>; done: string; onClose: () => void; tone?: string; children?: any }) {
  const task = useTask()
  return <Dialog title={title} confirm={confirm} tone={tone} busy={task.busy} error={task.error} onClose={onClose} onConfirm={async () => { if (await task.run(run, done)) onClose() }}>{text && <p>{text}</p>}{children}</Dialog>
}

function StopDialog({ v, purge, onClose }: { v: JobView; purge: boolean; onClose: () => void }) {
  const { ns, id } = v
  const t = sumOf(v.summary?.Summary)
  const children = v.summary?.Children
  const [gone, setGone] = useState(purge)
  const live = t.Running + t.Starting
  return <Confirm title={purge ? `Delete ${id}` : `Stop ${id}`} tone="bad" confirm={gone ? 'Delete the job' : `Stop ${plural(live, 'allocation')}`} onClose={onClose} done={gone ? 'The job is deleted' : 'The job is stopping'}
    run={async () => { await write('DELETE', '/v1/job/' + enc(id), undefined, { namespace: ns, purge: gone || undefined, uid: v.job.UID || undefined }); if (gone) { toast('Deleted ' + id); go('/jobs') } else v.refresh() }}>
    <p>This will happen:</p>
    <ul style={{ margin: 0 }}>
      <li>{live ? `${plural(live, 'running allocation stops', 'running allocations stop')}.` : 'Nothing of it runs now.'}</li>
      {t.Queued > 0 && <li>{plural(t.Queued, 'instance that waits is', 'instances that wait are')} given up.</li>}
      {children && children.Running + children.Pending > 0 && <li>Its {plural(children.Running + children.Pending, 'open child', 'open children')} go on; nothing new is launched.</li>}
      <li>{gone ? 'The job, its versions and its history are deleted. This cannot be undone.' : 'The job and its versions are kept: it can be started again.'}</li>
    </ul>
    {!purge && <label class="check"><input type="checkbox" checked={gone} onChange={(e) => setGone(e.currentTarget.checked)} />Delete it, too</label>}
    {!session.may('submit-job', ns) && <p class="bad">Your token lacks submit-job.</p>}
  </Confirm>
}
