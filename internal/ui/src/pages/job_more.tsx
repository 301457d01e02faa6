// The services and the evaluations of a job.
import { enc } from '../api'
import { useQuery } from '../live'
import { href, to } from '../router'
import { PagedTable } from '../table'
import type { Eval } from '../types'
import { Copy, Empty, ErrorBox, ID, Loading, Panel, Status, Table1, Time } from '../ui'
import type { JobView } from './job'

export interface Service { ID: string; ServiceName: string; Namespace: string; NodeID: string; JobID: string; AllocID: string; Address: string; Port: number; Tags: string[] | null; Datacenter: string }

export function JobServices({ v }: { v: JobView }) {
  const q = useQuery<Service[]>(`/v1/job/${enc(v.id)}/services`, { namespace: v.ns }, ['Service:' + v.id])
  if (!q.data) return q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="services" />
  if (q.data.length === 0) return <Panel><Empty title="No service of this job is registered">A service block in a group registers one for each allocation that runs.</Empty></Panel>
  return <Panel flush><Table1 label="Services" head={['Service', 'Address', 'Allocation', 'Tags']} rows={q.data.map((s) => [<a href={href(to.service(s.Namespace, s.ServiceName))}>{s.ServiceName}</a>, <span class="mono">{s.Address}:{s.Port}<Copy text={`${s.Address}:${s.Port}`} /></span>, <ID id={s.AllocID} to={to.alloc(s.AllocID)} />, (s.Tags ?? []).map((t) => <span class="tag" key={t}>{t}</span>)])} /></Panel>
}

export function Evaluations({ v }: { v: JobView }) {
  return <PagedTable<Eval> label="Evaluations" short path="/v1/evaluations" params={{ namespace: v.ns, job: v.id, reverse: true }} watch={['Evaluation:' + v.id]} rowKey={(e) => e.ID} rowTo={(e) => to.eval(e.ID)} empty={<Empty title="No evaluation is known" />} columns={evalColumns(false)} />
}
export function evalColumns(job: boolean) {
  return [
    { title: 'Evaluation', cell: (e: Eval) => <ID id={e.ID} to={to.eval(e.ID)} /> },
    ...(job ? [{ title: 'Job', cell: (e: Eval) => (e.JobID ? <a href={href(to.job(e.Namespace, e.JobID))}>{e.JobID}</a> : '–') }] : []),
    { title: 'State', cell: (e: Eval) => <Status state={e.QuasiStatus || e.Status} text={e.Status === 'complete' ? 'done' : undefined} /> }, { title: 'Trigger', cell: (e: Eval) => e.TriggeredBy },
    { title: 'What it lacks', class: 'p2', cell: (e: Eval) => <span title={lackOf(e)}>{lackOf(e) || '–'}</span> }, { title: 'Priority', class: 'num p3', cell: (e: Eval) => e.Priority }, { title: 'Created', class: 'p2', cell: (e: Eval) => <Time at={e.CreateTime} /> },
  ]
}
export function lackOf(e: Eval): string {
  if (e.QuotaLimitReached) return 'quota ' + e.QuotaLimitReached
  return Object.entries(e.FailedTGAllocs ?? {}).map(([g, m]) => {
    const s = (m.Shortages ?? [])[0]
    const c = Object.entries(m.ConstraintFiltered ?? {}).sort((a, b) => b[1] - a[1])[0]
    return `${g}: ` + (s ? (s.Holder ? `${s.Dimension} is taken` : `${s.Wanted} ${s.Unit} of ${s.Dimension} asked, ${s.Free} free at most`) : c ? `${c[1]} of ${m.NodesEvaluated} nodes do not meet ${c[0]}` : m.NodesEvaluated === 0 ? 'no node is ready' : `none of ${m.NodesEvaluated} nodes fits`)
  }).join('; ') || e.StatusDescription
}
