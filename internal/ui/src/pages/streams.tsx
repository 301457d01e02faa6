// Stream jobs.
import { href } from '../router'
import { PagedTable } from '../table'
import { Empty, Page, Squares, Status, Time } from '../ui'
import { jobState, squaresOf, sumOf, type JobStub } from './jobs'
export const streamTo = (j: { ID: string; Namespace: string }) => `/stream/${encodeURIComponent(j.ID)}?ns=${encodeURIComponent(j.Namespace)}`
export default function Streams() {
  return <Page title="Stream jobs" fill command="berth stream status">
    <PagedTable<JobStub> label="Stream jobs" path="/v1/jobs" params={{ namespace: '*', filter: 'Type == "stream"' }} watch={['Job', 'Resource']} rowKey={(j) => j.Namespace + '\n' + j.ID} rowTo={streamTo} empty={<Empty title="No stream job">A job of the type stream has processes that send data to each other.</Empty>}
      columns={[{ title: 'Job', cell: (j) => <a href={href(streamTo(j))}><b>{j.ID}</b></a> }, { title: 'State', cell: (j) => { const [s, t] = jobState(j, sumOf(j.JobSummary?.Summary)); return <Status state={s} text={t} /> } }, { title: 'Allocations', cell: (j) => <Squares counts={squaresOf(sumOf(j.JobSummary?.Summary))} /> }, { title: 'Namespace', class: 'p2', cell: (j) => j.Namespace }, { title: 'Submitted', class: 'p2', cell: (j) => <Time at={j.SubmitTime} /> }]} />
  </Page>
}
