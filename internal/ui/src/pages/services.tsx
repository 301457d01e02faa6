// Services that are registered.
import { useQuery } from '../live'
import { href, to } from '../router'
import { Empty, ErrorBox, Loading, Page, Panel, Table1 } from '../ui'
interface Listed { Namespace: string; Services: { ServiceName: string; Tags: string[] | null }[] | null }
export default function Services() {
  const q = useQuery<Listed[]>('/v1/services', { namespace: '*' }, ['Service'])
  const rows = (q.data ?? []).flatMap((n) => (n.Services ?? []).map((s) => ({ ns: n.Namespace, ...s })))
  return <Page title="Services" command="berth service list"><ErrorBox error={q.error} retry={q.refresh} />{q.loading ? <Loading /> : rows.length === 0 ? <Panel><Empty title="No service is registered">A service block in a group of a job registers one.</Empty></Panel> :
    <Panel flush><Table1 label="Services" head={['Service', 'Namespace', 'Tags']} rows={rows.map((s) => [<a href={href(to.service(s.ns, s.ServiceName))}><b>{s.ServiceName}</b></a>, s.ns, (s.Tags ?? []).map((t) => <span class="tag" key={t}>{t}</span>)])} /></Panel>}</Page>
}
