// Deployments, the newest first.
import { href, to, useParam } from '../router'
import { PagedTable } from '../table'
import type { Deployment } from '../types'
import { Empty, ID, Page, Status, Time } from '../ui'
import { Choice } from './jobs'
import { sentence } from './deployment'
export default function Deployments() {
  const [status, setStatus] = useParam('status')
  return <Page title="Deployments" fill command="berth deployment list">
    <div class="tools"><Choice label="Status" value={status} set={setStatus} of={[['', 'Any status'], ['running', 'Running'], ['paused', 'Paused'], ['failed', 'Failed'], ['successful', 'Successful'], ['cancelled', 'Cancelled']]} /></div>
    <PagedTable<Deployment> label="Deployments" path="/v1/deployments" params={{ namespace: '*', filter: status ? `Status == "${status}"` : undefined }} watch={['Deployment']} rowKey={(d) => d.ID} rowTo={(d) => to.deployment(d.ID)}
      empty={<Empty title="No deployment" >A service job whose update block asks for steps has one for each version.</Empty>}
      columns={[{ title: 'Deployment', cell: (d) => <ID id={d.ID} to={to.deployment(d.ID)} /> }, { title: 'Job', cell: (d) => <a href={href(to.job(d.Namespace, d.JobID))}>{d.JobID}</a> }, { title: 'State', cell: (d) => <Status state={d.Status} /> }, { title: 'Progress', class: 'p2', cell: (d) => <span title={d.StatusDescription}>{sentence(d)}</span> }, { title: 'Changed', class: 'p2', cell: (d) => <Time at={d.ModifyTime} /> }]} />
  </Page>
}
