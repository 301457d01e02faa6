// Volumes: directories of nodes that outlive allocations, and who claims them.
import { session } from '../api'
import { useQuery } from '../live'
import { href, to, useParam } from '../router'
import { PagedTable } from '../table'
import { Empty, ErrorBox, ID, Page, Panel, Status, Table1, Time, bytes } from '../ui'
import { Choice } from './jobs'

interface Volume { Namespace: string; ID: string; Name: string; PluginID: string; NodePool: string; NodeID: string; CapacityBytes: number; State: string; ModifyTime: number }
interface Claim { ID: string; Namespace: string; JobID: string; TaskGroupName: string; VolumeID: string; VolumeName: string; AllocID: string }
const states: Record<string, string> = { ready: 'ready', pending: 'pending', unavailable: 'disconnected' }

export default function Volumes() {
  const [ns, setNS] = useParam('namespace', '*')
  const claims = useQuery<Claim[]>('/v1/volumes/claims', { namespace: ns }, ['HostVolume', 'Allocation'])
  return <Page title="Volumes" answer="Dynamic host volumes: directories of nodes that stay when allocations end." command="berth volume status">
    <div class="tools"><Choice label="Namespace" value={ns} set={setNS} of={[['*', 'All namespaces'], ...(session.start?.Namespaces ?? ['default']).map((n) => [n, n] as [string, string])]} /></div>
    <PagedTable<Volume> label="Volumes" short path="/v1/volumes" params={{ type: 'host', namespace: ns }} watch={['HostVolume']} rowKey={(v) => v.Namespace + '\n' + v.ID}
      empty={<Empty title="No volume yet" command="berth volume create data.volume.hcl">The command "berth volume init" writes a file with all that can be said about one. Then:</Empty>}
      columns={[
        { title: 'Volume', cell: (v) => <b title={v.ID}>{v.Name}</b> }, { title: 'ID', class: 'p2', cell: (v) => <ID id={v.ID} /> }, { title: 'State', cell: (v) => <Status state={states[v.State] ?? v.State} text={v.State} /> },
        { title: 'Node', cell: (v) => (v.NodeID ? <ID id={v.NodeID} to={to.node(v.NodeID)} /> : '–') }, { title: 'Capacity', class: 'num', cell: (v) => (v.CapacityBytes ? bytes(v.CapacityBytes) : '–') },
        { title: 'Plugin', class: 'p2', cell: (v) => v.PluginID || '–' }, { title: 'Namespace', class: 'p2', cell: (v) => v.Namespace }, { title: 'Pool', class: 'p3', cell: (v) => v.NodePool }, { title: 'Changed', class: 'p2', cell: (v) => <Time at={v.ModifyTime} /> },
      ]} />
    <Panel title="Claims of groups" flush>
      <ErrorBox error={claims.error} retry={claims.refresh} />
      {claims.data && <Table1 label="Claims" head={['Volume', 'Job', 'Group', 'Allocation']} rows={claims.data.slice(0, 500).map((c) => [c.VolumeName, <a href={href(to.job(c.Namespace, c.JobID))}>{c.JobID}</a>, c.TaskGroupName, <ID id={c.AllocID} to={to.alloc(c.AllocID)} />])} />}
    </Panel>
  </Page>
}
