// A deployment: how far each group is, and what may be done about it.
import { useState } from 'preact/hooks'
import { enc, write } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { href, to } from '../router'
import type { AllocStub, Deployment, Job } from '../types'
import { Action, ErrorBox, ID, KV, Loading, Page, Panel, Status, Table1, Time, plural } from '../ui'
import { Confirm } from './job'
import { allocState, health } from './job_status'

export function DeploymentPanel({ d, job }: { d: Deployment; job?: Job }) {
  const groups = Object.entries(d.TaskGroups).sort()
  return <Panel title={<>Deployment of version {d.JobVersion} <Status state={d.Status} /></>} actions={<div class="row"><DeploymentActions d={d} job={job} /><a class="btn small" href={href(to.deployment(d.ID))}>Open</a></div>}>
    <div class="stack8">
      {d.StatusDescription && <p>{d.StatusDescription.charAt(0).toUpperCase() + d.StatusDescription.slice(1)}.</p>}
      {groups.map(([name, g]) => <div key={name} class="stack8">
        <div class="row" style={{ justifyContent: 'space-between' }}><b>{name}</b><span class="small dim">{g.HealthyAllocs} of {g.DesiredTotal} healthy{g.UnhealthyAllocs > 0 && `, ${g.UnhealthyAllocs} unhealthy`}{g.DesiredCanaries > 0 && `, ${plural(g.PlacedCanaries?.length ?? 0, 'canary', 'canaries')} of ${g.DesiredCanaries}${g.Promoted ? ', promoted' : ''}`}</span></div>
        <div class="bar" role="img" aria-label={`${name}: ${g.HealthyAllocs} healthy, ${g.UnhealthyAllocs} unhealthy, ${g.PlacedAllocs} placed of ${g.DesiredTotal}`}>
          <i class="h" style={{ width: pct(g.HealthyAllocs, g.DesiredTotal) }} /><i class="u" style={{ width: pct(g.UnhealthyAllocs, g.DesiredTotal) }} /><i class="p" style={{ width: pct(Math.max(0, g.PlacedAllocs - g.HealthyAllocs - g.UnhealthyAllocs), g.DesiredTotal) }} />
        </div>
        {d.Status === 'running' && g.DesiredCanaries > 0 && !g.Promoted && <p class="small">{g.AutoPromote ? 'It is promoted by itself when all canaries are healthy.' : 'Its canaries run beside the old version until somebody promotes them.'}</p>}
        {d.Status === 'running' && g.RequireProgressBy > '0002' && <p class="small dim">Without progress it fails <Time at={g.RequireProgressBy} />.</p>}
      </div>)}
    </div>
  </Panel>
}
const pct = (n: number, of: number) => (of ? Math.min(100, (n / of) * 100) : 0).toFixed(1) + '%'

export function DeploymentActions({ d, job }: { d: Deployment; job?: Job }) {
  const [open, setOpen] = useState('')
  const active = d.Status === 'running' || d.Status === 'paused' || d.Status === 'blocked' || d.Status === 'pending' || d.Status === 'initializing'
  const canaries = Object.entries(d.TaskGroups).filter(([, g]) => g.DesiredCanaries > 0 && !g.Promoted)
  const put = (what: string, body: object) => write('PUT', `/v1/deployment/${what}/${d.ID}`, { DeploymentID: d.ID, ...body }, { namespace: d.Namespace })
  const close = () => setOpen('')
  const old = Object.entries(d.TaskGroups).filter(([, g]) => g.AutoRevert)
  return <>
    {active && canaries.length > 0 && <Action need="submit-job" ns={d.Namespace} tone="main-action" onClick={() => setOpen('promote')}>Promote…</Action>}
    {active && <Action need="submit-job" ns={d.Namespace} onClick={() => setOpen('pause')}>{d.Status === 'paused' ? 'Resume…' : 'Pause…'}</Action>}
    {active && <Action need="submit-job" ns={d.Namespace} tone="bad" onClick={() => setOpen('fail')}>Fail…</Action>}
    {!active && d.Status === 'failed' && job && job.Version > 0 && <a class="btn" href={href(to.job(d.Namespace, d.JobID, 'versions'))}>Revert…</a>}
    {open === 'promote' && <Confirm title="Promote the canaries" confirm="Promote" done="The canaries are promoted" onClose={close} run={() => put('promote', { All: true })}>
      <p>This will happen:</p><ul style={{ margin: 0 }}>{canaries.map(([n, g]) => <li key={n}>{n}: {plural(g.PlacedCanaries?.length ?? 0, 'canary becomes an instance', 'canaries become instances')}, and the {plural(Math.max(0, g.DesiredTotal - (g.PlacedCanaries?.length ?? 0)), 'instance')} of the old version are replaced, a few at a time.{g.HealthyAllocs < g.DesiredCanaries && <b class="bad"> Only {g.HealthyAllocs} of {g.DesiredCanaries} are healthy: the promotion will be refused.</b>}</li>)}</ul>
    </Confirm>}
    {open === 'pause' && <Confirm title={d.Status === 'paused' ? 'Resume the deployment' : 'Pause the deployment'} confirm={d.Status === 'paused' ? 'Resume' : 'Pause'} done={d.Status === 'paused' ? 'Resumed' : 'Paused'} onClose={close} run={() => put('pause', { Pause: d.Status !== 'paused' })}
      text={d.Status === 'paused' ? 'It goes on replacing instances.' : 'What was placed stays; nothing more is replaced until it is resumed.'} />}
    {open === 'fail' && <Confirm title="Fail the deployment" tone="bad" confirm="Fail it" done="The deployment failed" onClose={close} run={() => put('fail', {})}
      text={old.length ? `It ends, and the job goes back to its last stable version (auto_revert of ${old.map(([n]) => n).join(', ')}).` : 'It ends, and canaries stop. Instances that were replaced already stay at the new version: nothing is reverted by itself.'} />}
  </>
}

export default function DeploymentPage({ place }: PageProps) {
  const id = place.parts[1] ?? ''
  const d = useQuery<Deployment>('/v1/deployment/' + enc(id), {}, ['Deployment:' + id, 'Allocation:' + id])
  const allocs = useQuery<AllocStub[]>('/v1/deployment/allocations/' + enc(id), {}, ['Allocation:' + id, 'Deployment:' + id])
  if (!d.data) return <Page title="Deployment" crumbs={[['Deployments', '/deployments']]}>{d.error ? <ErrorBox error={d.error} retry={d.refresh} /> : <Loading what="the deployment" />}</Page>
  const x = d.data
  return <Page title={`Deployment of ${x.JobID}`} crumbs={[['Deployments', '/deployments'], [x.JobID, to.job(x.Namespace, x.JobID)]]} answer={sentence(x)} command={'berth deployment status ' + x.ID} status={<Status state={x.Status} pill />}>
    <DeploymentPanel d={x} />
    <Panel title="Details"><KV of={[['ID', <ID id={x.ID} />], ['Job', <a href={href(to.job(x.Namespace, x.JobID))}>{x.JobID}</a>], ['Version', x.JobVersion], ['Created', <Time at={x.CreateTime} />], ['Changed', <Time at={x.ModifyTime} />], ['Created by', <ID id={x.EvalID} to={to.eval(x.EvalID)} />]]} /></Panel>
    <Panel title="Allocations" flush><Table1 label="Allocations" head={['Allocation', 'State', 'Health', 'Node', 'Changed']} rows={(allocs.data ?? []).slice(0, 500).map((a) => { const [s, t] = allocState(a); return [<a href={href(to.alloc(a.ID))}>{a.Name}</a>, <Status state={s} text={t} />, health(a) || '–', <a href={href(to.node(a.NodeID))}>{a.NodeName}</a>, <Time at={a.ModifyTime} />] })} /></Panel>
  </Page>
}
export function sentence(x: Deployment) {
  const healthy = Object.values(x.TaskGroups).reduce((n, g) => n + g.HealthyAllocs, 0), total = Object.values(x.TaskGroups).reduce((n, g) => n + g.DesiredTotal, 0)
  return `Version ${x.JobVersion}: ${healthy} of ${total} healthy. ${x.StatusDescription ? x.StatusDescription.charAt(0).toUpperCase() + x.StatusDescription.slice(1) + '.' : ''}`
}
