// All nodes.
import { useEffect, useState } from 'preact/hooks'
import { quoted } from '../api'
import { href, to, useParam } from '../router'
import { PagedTable } from '../table'
import { Empty, Page, Status, plural } from '../ui'
import { Choice } from './jobs'

export interface NodeStub { ID: string; Name: string; Address: string; Datacenter: string; NodePool: string; NodeClass: string; Status: string; SchedulingEligibility: string; Drain: boolean; Drivers: Record<string, { Detected: boolean; Healthy: boolean }> | null }
export function nodeState(n: { Status: string; Drain: boolean; SchedulingEligibility: string }): string { return n.Status !== 'ready' ? n.Status : n.Drain ? 'draining' : n.SchedulingEligibility !== 'eligible' ? 'ineligible' : 'ready' }

const states: Record<string, string> = { ready: 'Status == "ready" and SchedulingEligibility == "eligible"', down: 'Status == "down"', disconnected: 'Status == "disconnected"', ineligible: 'SchedulingEligibility == "ineligible"' }

export default function Nodes() {
  const [text, setText] = useParam('q')
  const [status, setStatus] = useParam('status')
  const [pool, setPool] = useParam('pool')
  const [typed, setTyped] = useState(text)
  const [count, setCount] = useState('')
  useEffect(() => { const t = setTimeout(() => setText(typed.trim()), 180); return () => clearTimeout(t) }, [typed])
  const parts: string[] = []
  if (text.startsWith('=')) { if (text.length > 1) parts.push('(' + text.slice(1) + ')') } else if (text) parts.push(`(Name contains ${quoted(text)} or Datacenter == ${quoted(text)} or NodeClass == ${quoted(text)})`)
  if (states[status]) parts.push(states[status])
  if (pool) parts.push(`NodePool == ${quoted(pool)}`)
  return <Page title="Nodes" fill status={<span class="dim" aria-live="polite">{count}</span>} actions={<a class="btn" href={href('/topology')}>Topology</a>}>
    <div class="tools">
      <input type="search" placeholder="Search by name, datacenter or class; = begins an expression" aria-label="Search nodes" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
      <Choice label="Status" value={status} set={setStatus} of={[['', 'Any status'], ['ready', 'Ready'], ['ineligible', 'Ineligible or draining'], ['disconnected', 'Disconnected'], ['down', 'Down']]} />
      {pool && <button class="btn small" onClick={() => setPool('')}>Pool {pool} ✕</button>}
    </div>
    <PagedTable<NodeStub> label="Nodes" path="/v1/nodes" params={{ filter: parts.join(' and ') || undefined }} watch={['Node']} rowKey={(n) => n.ID} rowTo={(n) => to.node(n.ID)} onCount={(n, all) => setCount(n === 0 ? '' : (all ? '' : 'more than ') + plural(n, 'node'))}
      empty={parts.length ? <Empty title="No node matches">Change the search or the filters.</Empty> : <Empty title="No node yet" command="berth agent -client -servers 10.0.0.1:4647">Start an agent as a client on a machine:</Empty>}
      columns={[{ title: 'Node', cell: (n) => <a href={href(to.node(n.ID))}><b>{n.Name}</b></a> }, { title: 'State', cell: (n) => <Status state={nodeState(n)} /> }, { title: 'Datacenter', cell: (n) => n.Datacenter }, { title: 'Pool', class: 'p2', cell: (n) => n.NodePool }, { title: 'Class', class: 'p2', cell: (n) => n.NodeClass || '–' }, { title: 'Address', class: 'p2', cell: (n) => n.Address },
        { title: 'Drivers', class: 'p3', cell: (n) => Object.entries(n.Drivers ?? {}).filter(([, d]) => d.Healthy).map(([k]) => <span class="tag" key={k} style={{ marginRight: '4px' }}>{k}</span>) }]} />
  </Page>
}
