// An evaluation: why it was created, what it decided, and its place in the chain.
import { enc } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { to } from '../router'
import type { Eval, Explanation, Trace } from '../types'
import { ErrorBox, Loading, Page, Panel, Status, Table1, short } from '../ui'
import { AllocTable } from './job_allocs'
import { EvalDetails, Lanes } from './job_timeline'
export default function EvalPage({ place }: PageProps) {
  const id = place.parts[1] ?? ''
  const q = useQuery<Eval>('/v1/evaluation/' + enc(id), {}, ['Evaluation:' + id])
  const why = useQuery<Explanation>(q.data?.JobID ? `/v1/evaluation/${enc(id)}/explain` : null, {}, ['Evaluation:' + id])
  const trace = useQuery<Trace>(q.data?.JobID ? `/v1/evaluation/${enc(id)}/trace` : null, {}, ['Evaluation:' + id])
  const e = q.data
  if (!e) return <Page title="Evaluation" crumbs={[['Evaluations', '/evaluations']]}>{q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="the evaluation" />}</Page>
  const traced = trace.data?.Evals?.find((x) => x.ID === e.ID)
  const failed = Object.entries(e.FailedTGAllocs ?? {})
  const crumbs: [string, string][] = [['Evaluations', '/evaluations']]
  if (e.JobID) crumbs.push([e.JobID, to.job(e.Namespace, e.JobID)])
  return <Page title={'Evaluation ' + short(e.ID)} crumbs={crumbs} answer={why.data?.Summary ?? e.StatusDescription ?? '\u00a0'} status={<Status state={e.QuasiStatus || e.Status} text={e.Status === 'complete' ? 'done' : undefined} pill />} command={`berth eval trace ${id}`}>
    {failed.map(([g, m]) => <Panel key={g} title={`${g} could not be placed`} flush><Table1 label={g} head={['What was missing', 'Nodes']} rows={[...Object.entries(m.ConstraintFiltered ?? {}).map(([c, n]) => [<>does not meet <code>{c}</code></>, n]), ...(m.Shortages ?? []).map((s) => [s.Holder ? `${s.Dimension} is taken by ${s.Holder}` : `${s.Dimension}: ${s.Wanted} ${s.Unit} asked, ${s.Free} free at most`, s.Nodes]), ...(m.QuotaExhausted ?? []).map((x) => ['quota: ' + x, '–'])]} /></Panel>)}
    <ErrorBox error={trace.error} retry={trace.refresh} />
    {traced && <EvalDetails e={traced} />}
    {trace.data && <Lanes evals={trace.data.Evals ?? []} allocs={[]} />}
    <Panel title="Allocations that it placed or changed" flush><AllocTable path={`/v1/evaluation/${enc(id)}/allocations`} params={{}} watch={['Allocation:' + id]} label="Allocations" short empty="None" /></Panel>
  </Page>
}
