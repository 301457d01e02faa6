// A node: whether it takes work, what runs on it, how full it is, and draining it.
import { useState } from 'preact/hooks'
import { enc, write } from '../api'
import { Chart } from '../chart'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { to } from '../router'
import { AllocTable } from './job_allocs'
import { Action, ErrorBox, ID, KV, Loading, Meter, Page, Panel, Status, Table1, Tabs, Time, bytes, mhz, mib, plural } from '../ui'
import { useSamples } from './alloc_stats'
import { Confirm } from './job'
import { nodeState, type NodeStub } from './nodes'

interface Node extends NodeStub {
  HTTPAddr: string; Attributes: Record<string, string> | null; Meta: Record<string, string> | null; StatusUpdatedAt: number; StatusDescription: string
  NodeResources: { Cpu: { CpuShares: number; TotalCpuCores: number }; Memory: { MemoryMB: number }; Disk: { DiskMB: number }; Devices: { Vendor: string; Type: string; Name: string; Instances: { ID: string; Healthy: boolean }[] | null }[] | null } | null
  DrainStrategy: { Deadline: number; IgnoreSystemJobs: boolean; ForceDeadline: string; StartedAt: string } | null
  LastDrain: { StartedAt: string; UpdatedAt: string; Status: string } | null
  Events: { Message: string; Subsystem: string; Timestamp: string; Details: Record<string, string> | null }[] | null
  HostVolumes: Record<string, { Path: string; ReadOnly: boolean }> | null
}
interface RunningAlloc { ID: string; ClientStatus: string; DesiredStatus: string; AllocatedResources: { Tasks: Record<string, { Cpu: { CpuShares: number }; Memory: { MemoryMB: number } }>; Shared: { DiskMB: number } } | null; DesiredTransition: { Migrate: boolean | null } | null }
interface Host { Memory: { Total: number; Used: number } | null; CPU: { User: number; System: number }[] | null; DiskStats: { Mountpoint: string; Size: number; Used: number }[] | null; Uptime: number; CPUTicksConsumed: number }

export default function NodePage({ place }: PageProps) {
  const id = place.parts[1] ?? '', tab = place.parts[2] ?? 'status'
  const q = useQuery<Node>('/v1/node/' + enc(id), {}, ['Node:' + id])
  const allocs = useQuery<RunningAlloc[]>('/v1/allocations', { namespace: '*', resources: true, task_states: false, per_page: 1000, filter: `NodeID == "${id}" and (ClientStatus == "running" or ClientStatus == "pending")` }, ['Allocation:' + id])
  const n = q.data
  if (!n) return <Page title="Node" crumbs={[['Nodes', '/nodes']]}>{q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="the node" />}</Page>
  const live = allocs.data ?? []
  const tabs = [['status', 'Status'], ['allocations', 'Allocations'], ['attributes', 'Attributes'], ['events', 'Events']].map(([k, name]) => ({ id: k, name, to: to.node(id, k === 'status' ? '' : k) }))
  return <Page title={n.Name} crumbs={[['Nodes', '/nodes']]} answer={sentence(n, live.length)} command={'berth node status ' + id} status={<Status state={nodeState(n)} pill />} actions={<Actions n={n} live={live.length} />}>
    <Tabs tabs={tabs} at={tab} />
    {tab === 'status' && <>
      {n.DrainStrategy && <Drain n={n} live={live} />}
      <Fill n={n} live={live} />
      {n.Status === 'ready' && <Use id={id} />}
      <div class="cols">
        <Panel title="Details"><KV of={[['ID', <ID id={n.ID} />], ['Address', n.HTTPAddr], ['Datacenter', n.Datacenter], ['Node pool', n.NodePool], ['Class', n.NodeClass], ['Status', <>{n.Status} since <Time at={n.StatusUpdatedAt * 1e9} /> <span class="dim">{n.StatusDescription}</span></>], ['System', `${n.Attributes?.['os.name'] ?? ''} ${n.Attributes?.['os.version'] ?? ''}, kernel ${n.Attributes?.['kernel.version'] ?? ''}`], ['Processor', `${n.Attributes?.['cpu.modelname'] ?? ''}, ${plural(n.NodeResources?.Cpu.TotalCpuCores ?? 0, 'core')}`], ['Agent', n.Attributes?.['berth.version'] ?? '']]} /></Panel>
        <Panel title="Drivers" flush><Table1 label="Drivers" head={['Driver', 'State']} rows={Object.entries(n.Drivers ?? {}).sort().map(([k, d]) => [k, <Status state={d.Healthy ? 'healthy' : d.Detected ? 'unhealthy' : 'left'} text={d.Healthy ? 'healthy' : d.Detected ? 'unhealthy' : 'not there'} />])} /></Panel>
        {(n.NodeResources?.Devices ?? []).length > 0 && <Panel title="Devices" flush><Table1 label="Devices" head={['Device', 'Healthy']} rows={n.NodeResources!.Devices!.map((d) => [`${d.Vendor}/${d.Type}/${d.Name}`, `${(d.Instances ?? []).filter((i) => i.Healthy).length} of ${(d.Instances ?? []).length}`])} /></Panel>}
        {Object.keys(n.HostVolumes ?? {}).length > 0 && <Panel title="Host volumes" flush><Table1 label="Host volumes" head={['Volume', 'Path', '']} rows={Object.entries(n.HostVolumes!).map(([k, v]) => [k, <code>{v.Path}</code>, v.ReadOnly ? 'read only' : ''])} /></Panel>}
      </div></>}
    {tab === 'allocations' && <AllocTable path="/v1/allocations" params={{ namespace: '*', reverse: true, filter: `NodeID == "${id}"` }} watch={['Allocation:' + id]} label="Allocations on this node" short empty="Nothing was placed here" />}
    {tab === 'attributes' && <div class="cols"><Panel title="Meta"><KV of={Object.entries(n.Meta ?? {}).sort()} /></Panel><Panel title="Attributes"><KV of={Object.entries(n.Attributes ?? {}).sort()} /></Panel></div>}
    {tab === 'events' && <Panel flush><Table1 label="Events" head={['When', 'Part', 'Event']} rows={[...(n.Events ?? [])].reverse().map((e) => [<Time at={e.Timestamp} />, e.Subsystem, e.Message])} /></Panel>}
  </Page>
}

function sentence(n: Node, live: number): string {
  const runs = plural(live, 'allocation')
  switch (nodeState(n)) {
    case 'down': return 'The node is down: it missed its heartbeat. What ran on it is replaced elsewhere.'
    case 'disconnected': return 'The node is not heard from. Its allocations may come back.'
    case 'draining': return live ? `It is being drained: ${runs} still here.` : 'It is drained: nothing is left here.'
    case 'ineligible': return `It takes no new allocations; ${runs} run here.`
    case 'initializing': return 'It has registered and not sent a heartbeat yet.'
  }
  return `It takes work, and runs ${runs}.`
}

function Fill({ n, live }: { n: Node; live: RunningAlloc[] }) {
  const used = { cpu: 0, mem: 0, disk: 0 }
  for (const a of live) { for (const t of Object.values(a.AllocatedResources?.Tasks ?? {})) { used.cpu += t.Cpu.CpuShares; used.mem += t.Memory.MemoryMB } used.disk += a.AllocatedResources?.Shared.DiskMB ?? 0 }
  const r = n.NodeResources
  if (!r) return null
  return <Panel title="Given to allocations"><div class="cols">{([['CPU', used.cpu, r.Cpu.CpuShares, mhz], ['Memory', used.mem, r.Memory.MemoryMB, mib], ['Disk', used.disk, r.Disk.DiskMB, mib]] as const).map(([k, u, of, f]) => <div key={k}><div class="row" style={{ justifyContent: 'space-between' }}><b>{k}</b><span class="small dim">{f(u)} of {f(of)}</span></div><Meter used={u} of={of} label={`${k}: ${f(u)} of ${f(of)}`} /></div>)}</div></Panel>
}

function Use({ id }: { id: string }) {
  const s = useSamples<Host>('/v1/client/stats', { node_id: id }, (h) => [h.CPUTicksConsumed, h.Memory?.Used ?? 0])
  const last = (i: number) => s.values[i]?.[s.values[i].length - 1] ?? 0
  if (s.error && s.times.length === 0) return null
  return <div class="cols"><Panel title={<>CPU of the machine <span class="dim small" style={{ fontWeight: 400 }}>{mhz(last(0))}</span></>}><Chart times={s.times} values={s.values[0] ?? []} series={{ name: 'CPU', unit: mhz }} label={`CPU of the machine: ${mhz(last(0))}`} /></Panel><Panel title={<>Memory of the machine <span class="dim small" style={{ fontWeight: 400 }}>{bytes(last(1))}</span></>}><Chart times={s.times} values={s.values[1] ?? []} series={{ name: 'Memory', unit: bytes }} label={`Memory of the machine: ${bytes(last(1))}`} /></Panel></div>
}

function Drain({ n, live }: { n: Node; live: RunningAlloc[] }) {
  const [first] = useState(live.length)
  const most = Math.max(first, live.length)
  return <Panel title="Drain"><div class="stack8"><div class="bar" role="img" aria-label={`${most - live.length} of ${most} moved`}><i class="h" style={{ width: most ? ((most - live.length) / most) * 100 + '%' : '100%' }} /></div>
    <p>{live.length ? `${plural(live.length, 'allocation')} to go` : 'Nothing is left.'}{n.DrainStrategy!.ForceDeadline > '0002' && <>; what is left is stopped <Time at={n.DrainStrategy!.ForceDeadline} /></>}. It began <Time at={n.DrainStrategy!.StartedAt} />.</p></div></Panel>
}

function Actions({ n, live }: { n: Node; live: number }) {
  const [open, setOpen] = useState('')
  const [deadline, setDeadline] = useState('60')
  const [system, setSystem] = useState(false)
  const [eligible, setEligible] = useState(true)
  const close = () => setOpen('')
  const put = (what: string, body: object) => write('PUT', `/v1/node/${n.ID}/${what}`, { NodeID: n.ID, ...body })
  return <div class="row">
    {!n.DrainStrategy && <Action need="node:write" onClick={() => setOpen('eligibility')}>{n.SchedulingEligibility === 'eligible' ? 'Make ineligible…' : 'Make eligible…'}</Action>}
    <Action need="node:write" tone={n.DrainStrategy ? '' : 'bad'} onClick={() => setOpen('drain')}>{n.DrainStrategy ? 'Stop the drain…' : 'Drain…'}</Action>
    {open === 'eligibility' && <Confirm title={n.SchedulingEligibility === 'eligible' ? `Make ${n.Name} ineligible` : `Make ${n.Name} eligible`} confirm="Do it" done="Done" onClose={close} run={() => put('eligibility', { Eligibility: n.SchedulingEligibility === 'eligible' ? 'ineligible' : 'eligible' })} text={n.SchedulingEligibility === 'eligible' ? `It takes no new allocations. The ${plural(live, 'allocation')} on it stay.` : 'It takes new allocations again. Jobs that wait for capacity are looked at.'} />}
    {open === 'drain' && !n.DrainStrategy && <Confirm title={`Drain ${n.Name}`} tone="bad" confirm={`Move ${plural(live, 'allocation')}`} done="The drain has begun" onClose={close} run={() => put('drain', { DrainSpec: { Deadline: deadline === '-1' ? -1 : Number(deadline) * 60e9, IgnoreSystemJobs: system } })}>
      <p>This will happen: the node takes no new allocations, and {plural(live, 'allocation moves', 'allocations move')} to other nodes, a few of each group at a time (the job's migrate block). What finds no place elsewhere waits for capacity.</p>
      <label class="field">What is left after this time is stopped<select value={deadline} onChange={(e) => setDeadline(e.currentTarget.value)}><option value="5">5 minutes</option><option value="60">1 hour</option><option value="1440">1 day</option><option value="0">no limit</option><option value="-1">at once</option></select></label>
      <label class="check"><input type="checkbox" checked={system} onChange={(e) => setSystem(e.currentTarget.checked)} />Leave system jobs here</label>
    </Confirm>}
    {open === 'drain' && n.DrainStrategy && <Confirm title={`Stop the drain of ${n.Name}`} confirm="Stop the drain" done="The drain has ended" onClose={close} run={() => put('drain', { MarkEligible: eligible })} text="What is still here stays."><label class="check"><input type="checkbox" checked={eligible} onChange={(e) => setEligible(e.currentTarget.checked)} />Take new allocations again</label></Confirm>}
  </div>
}
