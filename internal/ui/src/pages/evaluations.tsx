// Evaluations: the queue, what is blocked and why, what failed.
import { quoted } from '../api'
import { to, useParam } from '../router'
import { PagedTable } from '../table'
import type { Eval } from '../types'
import { Empty, Page } from '../ui'
import { Choice } from './jobs'
import { evalColumns } from './job_more'
export default function Evaluations() {
  const [status, setStatus] = useParam('status')
  const [job, setJob] = useParam('job')
  const filters = [job && `JobID contains ${quoted(job)}`].filter(Boolean)
  return <Page title="Evaluations" fill answer={status === 'blocked' ? 'Blocked evaluations wait for capacity. Each is looked at again when something is freed that could help.' : undefined} command="berth eval list">
    <div class="tools"><input type="search" placeholder="Search by job" aria-label="Search by job" value={job} onInput={(e) => setJob(e.currentTarget.value)} />
      <Choice label="Status" value={status} set={setStatus} of={[['', 'Any status'], ['pending', 'In the queue'], ['blocked', 'Blocked'], ['failed', 'Failed'], ['complete', 'Done'], ['canceled', 'Canceled']]} /></div>
    <PagedTable<Eval> label="Evaluations" path="/v1/evaluations" params={{ namespace: '*', status: status || undefined, reverse: true, filter: filters.join(' and ') || undefined }} watch={['Evaluation']} rowKey={(e) => e.ID} rowTo={(e) => to.eval(e.ID)} columns={evalColumns(true)}
      empty={<Empty title={status === 'blocked' ? 'Nothing waits for capacity' : 'No evaluation'}>{status === 'blocked' ? 'All jobs found their place.' : 'They are collected some time after they are done.'}</Empty>} />
  </Page>
}
