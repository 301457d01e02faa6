// Lists of allocations.
import { enc, type Params } from '../api'
import { href, to } from '../router'
import { PagedTable } from '../table'
import type { AllocStub } from '../types'
import { Empty, Status, Time } from '../ui'
import type { JobView } from './job'
import { allocState, health, restarts } from './job_status'

export function AllocTable({ path, params, watch, label, short, empty }: { path: string; params: Params; watch: string[]; label: string; short?: boolean; empty?: string }) {
  return <PagedTable<AllocStub> label={label} path={path} params={params} watch={watch} short={short} rowKey={(a) => a.ID} rowTo={(a) => to.alloc(a.ID)} empty={<Empty title={empty ?? 'No allocation'} />}
    columns={[
      { title: 'Allocation', cell: (a) => <a href={href(to.alloc(a.ID))}>{a.Name}</a> }, { title: 'State', cell: (a) => { const [s, t] = allocState(a); return <Status state={s} text={t} /> } },
      { title: 'Node', cell: (a) => (a.NodeName ? <a href={href(to.node(a.NodeID))}>{a.NodeName}</a> : '–') }, { title: 'Health', class: 'p2', cell: (a) => health(a) || '–' },
      { title: 'Why', class: 'p3', cell: (a) => <span title={a.DesiredDescription || a.ClientDescription}>{a.DesiredDescription || a.ClientDescription}</span> },
      { title: 'Version', class: 'num p2', cell: (a) => a.JobVersion }, { title: 'Restarts', class: 'num p2', cell: (a) => restarts(a) }, { title: 'Created', class: 'p2', cell: (a) => <Time at={a.CreateTime} /> },
    ]} />
}
export function Allocations({ v }: { v: JobView }) {
  return <div class="fillbox"><AllocTable path={`/v1/job/${enc(v.id)}/allocations`} params={{ namespace: v.ns, reverse: true }} watch={['Allocation:' + v.id]} label="Allocations" short empty="Nothing was placed yet" /></div>
}
