// Volumes: directories of nodes and volumes of storage plugins, which outlive
// allocations, and who claims them.
import { session } from '../api'
import { useQuery } from '../live'
import { href, to, useParam } from '../router'
import { PagedTable } from '../table'
import { Empty, ErrorBox, ID, Page, Panel, Status, Table1, Time, bytes } from '../ui'
import { Choice } from './jobs'

interface Volume { Namespace: string; ID: string; Name: string; PluginID: string; NodePool: string; NodeID: string; CapacityBytes: number; State: string; ModifyTime: number }
interface Claim { ID: string; Namespace: string; JobID: string; TaskGroupName: string; VolumeID: string; VolumeName: string; AllocID: string }
interface CSIVolume extends Volume { AccessMode: string; CurrentReaders: number; CurrentWriters: number; Schedulable: boolean; ControllerRequired: boolean; ControllersHealthy: number; NodesHealthy: number; NodesExpected: number }
interface Plugin { ID: string; Provider: string; ControllerRequired: boolean; ControllersHealthy: number; ControllersExpected: number; NodesHealthy: number; NodesExpected: number }
const states: Record<string, string> = { ready: 'ready', pending: 'pending', unavailable: 'disconnected' }

export default function Volumes() {
  const [ns, setNS] = useParam('namespace', '*')
  const may = session.may('plugin:list') || session.may('plugin:read')
  const plugins = useQuery<Plugin[]>(may ? '/v1/plugins' : null, { type: 'csi' }, ['CSIPlugin'])
  const claims = useQuery<Claim[]>('/v1/volumes/claims', { namespace: ns }, ['HostVolume', 'Allocation'])
  return <Page title="Volumes" answer="Dynamic host volumes are directories of nodes that stay when allocations end. CSI volumes belong to storage plugins and move with allocations." command="berth volume status">
    <div class="tools"><Choice label="Namespace" value={ns} set={setNS} of={[['*', 'All namespaces'], ...(session.start?.Namespaces ?? ['default']).map((n) => [n, n] as [string, string])]} /></div>
    <PagedTable<Volume> label="Volumes" short path="/v1/volumes" params={{ type: 'host', namespace: ns }} watch={['HostVolume']} rowKey={(v) => v.Namespace + '\n' + v.ID}
      empty={<Empty title="No volume yet" command="berth volume create data.volume.hcl">The command "berth volume init" writes a file with all that can be said about one. Then:</Empty>}
      columns={[
        { title: 'Volume', cell: (v) => <b title={v.ID}>{v.Name}</b> }, { title: 'ID', class: 'p2', cell: (v) => <ID id={v.ID} /> }, { title: 'State', cell: (v) => <Status state={states[v.State] ?? v.State} text={v.State} /> },
        { title: 'Node', cell: (v) => (v.NodeID ? <ID id={v.NodeID} to={to.node(v.NodeID)} /> : '–') }, { title: 'Capacity', class: 'num', cell: (v) => (v.CapacityBytes ? bytes(v.CapacityBytes) : '–') },
        { title: 'Plugin', class: 'p2', cell: (v) => v.PluginID || '–' }, { title: 'Namespace', class: 'p2', cell: (v) => v.Namespace }, { title: 'Pool', class: 'p3', cell: (v) => v.NodePool }, { title: 'Changed', class: 'p2', cell: (v) => <Time at={v.ModifyTime} /> },
      ]} />
    <h2>CSI volumes</h2>
    <PagedTable<CSIVolume> label="CSI volumes" short path="/v1/volumes" params={{ type: 'csi', namespace: ns }} watch={['CSIVolume', 'CSIPlugin']} rowKey={(v) => v.Namespace + '\n' + v.ID}
      empty={<Empty title="No CSI volume yet" command="berth volume create -type csi data.volume.hcl">A job with a csi_plugin block runs the plugin of the storage. Then:</Empty>}
      columns={[
        { title: 'Volume', cell: (v) => <b title={v.ID}>{v.Name || v.ID}</b> }, { title: 'State', cell: (v) => <Status state={v.Schedulable ? 'ready' : 'disconnected'} text={v.Schedulable ? 'ready' : 'its plugin is not healthy'} /> },
        { title: 'Used by', cell: (v) => `${v.CurrentWriters} writing, ${v.CurrentReaders} reading` }, { title: 'Access', class: 'p2', cell: (v) => v.AccessMode || '–' },
        { title: 'Plugin', cell: (v) => v.PluginID }, { title: 'Nodes', class: 'num p2', cell: (v) => `${v.NodesHealthy} of ${v.NodesExpected}` }, { title: 'Namespace', class: 'p2', cell: (v) => v.Namespace },
      ]} />
    {may && <Panel title="Storage plugins" flush>
      <ErrorBox error={plugins.error} retry={plugins.refresh} />
      {plugins.data && <Table1 label="Storage plugins" head={['Plugin', 'Provider', 'Controllers healthy', 'Nodes healthy']} rows={plugins.data.slice(0, 500).map((x) => [x.ID, x.Provider || '–', x.ControllerRequired ? `${x.ControllersHealthy} of ${x.ControllersExpected}` : 'none needed', `${x.NodesHealthy} of ${x.NodesExpected}`])} />}
    </Panel>}
    <Panel title="Claims on host volumes" flush>
      <ErrorBox error={claims.error} retry={claims.refresh} />
      {claims.data && <Table1 label="Claims" head={['Volume', 'Job', 'Group', 'Allocation']} rows={claims.data.slice(0, 500).map((c) => [c.VolumeName, <a href={href(to.job(c.Namespace, c.JobID))}>{c.JobID}</a>, c.TaskGroupName, <ID id={c.AllocID} to={to.alloc(c.AllocID)} />])} />}
    </Panel>
  </Page>
}
