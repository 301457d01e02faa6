// A service and its instances.
import { enc } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { href, to } from '../router'
import { Copy, Empty, ErrorBox, ID, Loading, Page, Panel, Table1, plural } from '../ui'
import type { Service } from './job_more'
export default function ServicePage({ place }: PageProps) {
  const name = place.parts[1] ?? '', ns = place.query.get('ns') ?? 'default'
  const q = useQuery<Service[]>('/v1/service/' + enc(name), { namespace: ns }, ['Service:' + name])
  const list = q.data ?? []
  return <Page title={name} crumbs={[['Services', '/services']]} answer={q.data ? `${plural(list.length, 'instance is', 'instances are')} registered.` : undefined} command={'berth service info ' + name}><ErrorBox error={q.error} retry={q.refresh} />{q.loading ? <Loading /> : list.length === 0 ? <Empty title="No instance is registered" /> :
    <Panel flush><Table1 label="Instances" head={['Address', 'Job', 'Allocation', 'Node', 'Tags']} rows={list.map((s) => [<span class="mono">{s.Address}:{s.Port}<Copy text={`${s.Address}:${s.Port}`} /></span>, <a href={href(to.job(s.Namespace, s.JobID))}>{s.JobID}</a>, <ID id={s.AllocID} to={to.alloc(s.AllocID)} />, <ID id={s.NodeID} to={to.node(s.NodeID)} />, (s.Tags ?? []).join(', ')])} /></Panel>}</Page>
}
