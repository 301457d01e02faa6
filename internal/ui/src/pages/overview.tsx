// The overview: what needs a person first, then how much room there is.
import { useEffect } from 'preact/hooks'
import { session } from '../api'
import { useQuery } from '../live'
import { href, to } from '../router'
import { Empty, ErrorBox, Facts, Loading, Meter, Page, Panel, Squares, Status, Time, mhz, mib, plural } from '../ui'

export interface Attention { Kind: string; Namespace: string; JobID: string; NodeID: string; Name: string; DeploymentID: string; EvalID: string; Text: string; Since: number }
interface Ask { CPU: number; MemoryMB: number; DiskMB: number }
interface Overview {
  Jobs: { Total: number; Running: number; Pending: number; Dead: number; Stopped: number; Waiting: number }
  Allocs: Record<string, number>; Evals: { Pending: number; Blocked: number }
  Rates: { Placed: number; Started: number; Failed: number; Evaluated: number }
  Nodes: null | { Total: number; Ready: number; Down: number; Disconnected: number; Initializing: number; Draining: number; Ineligible: number }
  Pools: { Name: string; Nodes: number; Ready: number; Capacity: Ask; Used: Ask }[] | null
  Attention: Attention[]; More: number
}

const kinds: Record<string, [string, string]> = {
  'deployment-failed': ['failed', 'deployment failed'], blocked: ['blocked', 'waiting for capacity'], 'node-down': ['down', 'node down'], 'node-disconnected': ['disconnected', 'node disconnected'],
  promotion: ['paused', 'waits for promotion'], 'failed-allocations': ['failed', 'failed'], 'pool-full': ['warning', 'pool nearly full'],
}
function target(a: Attention): [string, string] {
  if (a.JobID) return [a.JobID, to.job(a.Namespace, a.JobID, a.Kind === 'blocked' ? 'why' : '')]
  if (a.NodeID) return [a.Name, to.node(a.NodeID)]
  return [a.Name, '/nodes?pool=' + encodeURIComponent(a.Name)]
}

function sentence(o: Overview): string {
  const n = o.Attention.length + o.More
  const runs = `${plural(o.Jobs.Running, 'job runs', 'jobs run')}${o.Nodes ? ' on ' + plural(o.Nodes.Ready, 'ready node') : ''}.`
  if (o.Jobs.Total === 0) return o.Nodes && o.Nodes.Ready === 0 ? 'No job yet, and no node is ready.' : 'The cluster is ready, and no job was submitted yet.'
  return n === 0 ? `${runs} Nothing needs your attention.` : `${runs} ${plural(n, 'thing needs', 'things need')} attention.`
}

export default function OverviewPage() {
  const q = useQuery<Overview>('/v1/ui/overview', { namespace: '*' }, ['Job', 'Evaluation', 'Deployment', 'Node'])
  const leader = useQuery<string>('/v1/status/leader', {}, ['Node'])
  const peers = useQuery<string[]>('/v1/status/peers', {}, [])
  const o = q.data
  // What happened gets older without an event, until it is not of the last minute.
  const moves = o && Object.values(o.Rates).some((n) => n > 0)
  useEffect(() => {
    const t = moves ? setTimeout(q.refresh, 10_000) : undefined
    return () => clearTimeout(t)
  }, [o])
  if (!o) return <Page title="Overview">{q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="the overview" />}</Page>
  return <Page title="Overview" answer={sentence(o)} command="berth status">
    <ErrorBox error={q.error} />
    <Panel title="Needs attention" flush>
      {o.Attention.length === 0 ? <Empty title="Nothing">Failed deployments, jobs that wait for capacity, silent nodes and full pools would stand here.</Empty> :
        <div class="scroll-x" tabIndex={0} role="region" aria-label="What needs attention"><table class="cards">
          <thead><tr><th scope="col">What</th><th scope="col">Where</th><th scope="col">Why</th><th scope="col" class="p2">Since</th></tr></thead>
          <tbody>{o.Attention.map((a) => {
            const [state, text] = kinds[a.Kind] ?? ['warning', a.Kind]
            const [name, link] = target(a)
            return <tr key={a.Kind + a.Namespace + a.JobID + a.NodeID + a.Name + a.EvalID}>
              <td><Status state={state} text={text} /></td>
              <td><a href={href(link)}><b class="wrap">{name}</b></a>{a.Namespace && a.Namespace !== 'default' && <div class="dim small">{a.Namespace}</div>}</td>
              <td class="wrap">{a.Text}</td><td class="p2"><Time at={a.Since} /></td>
            </tr>
          })}</tbody></table></div>}
      {o.More > 0 && <p class="dim" style={{ padding: '8px 12px' }}>{plural(o.More, 'more', 'more')}. <a href={href('/evaluations?status=blocked')}>All blocked evaluations</a></p>}
    </Panel>
    <div class="cols">
      <Panel title="Jobs" actions={<a href={href('/jobs')}>All jobs</a>}>
        <div class="stack8">
          <Facts of={[['running', o.Jobs.Running], ['starting', o.Jobs.Pending], ['waiting for capacity', o.Jobs.Waiting], ['finished', o.Jobs.Dead], ['stopped', o.Jobs.Stopped]]} />
          <div><Squares counts={[['running', o.Allocs.Running], ['starting', o.Allocs.Starting], ['queued', o.Allocs.Queued], ['failed', o.Allocs.Failed], ['lost', o.Allocs.Lost], ['unknown', o.Allocs.Unknown], ['complete', o.Allocs.Complete]]} /> <span class="dim small">allocations</span></div>
        </div>
      </Panel>
      {o.Nodes && <Panel title="Nodes" actions={<a href={href('/topology')}>Topology</a>}>
        <Facts of={[['ready', o.Nodes.Ready], ['down', o.Nodes.Down], ['disconnected', o.Nodes.Disconnected], ['draining', o.Nodes.Draining], ['ineligible', o.Nodes.Ineligible]]} />
      </Panel>}
      <Panel title="Servers" actions={session.may('operator:read') ? <a href={href('/servers')}>Details</a> : undefined}>
        <Facts of={[['servers', peers.data?.length ?? '–'], ['leader', <span class="mono" style={{ fontSize: '15px' }}>{leader.data || (leader.error ? 'none' : '…')}</span>], ['open evaluations', o.Evals.Pending], ['blocked', o.Evals.Blocked]]} />
      </Panel>
    </div>
    <Panel title="In the last minute">
      <Facts of={[['placed', o.Rates.Placed.toLocaleString('en')], ['started', o.Rates.Started.toLocaleString('en')], ['failed', o.Rates.Failed.toLocaleString('en')], ['evaluations', o.Rates.Evaluated.toLocaleString('en')], ['placed a second', (o.Rates.Placed / 60).toFixed(o.Rates.Placed < 600 ? 1 : 0)]]} />
    </Panel>
    {o.Pools && o.Pools.length > 0 && <Panel title="Capacity of ready nodes" flush>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Capacity"><table>
        <thead><tr><th scope="col">Node pool</th><th scope="col" class="num">Nodes</th><th scope="col">CPU</th><th scope="col">Memory</th><th scope="col" class="p2">Disk</th></tr></thead>
        <tbody>{o.Pools.map((p) => <tr key={p.Name}><td><a href={href('/nodes?pool=' + encodeURIComponent(p.Name))}>{p.Name}</a></td><td class="num">{p.Ready}{p.Ready !== p.Nodes && <span class="dim"> of {p.Nodes}</span>}</td>
          <Room used={p.Used.CPU} of={p.Capacity.CPU} text={mhz} /><Room used={p.Used.MemoryMB} of={p.Capacity.MemoryMB} text={mib} /><Room used={p.Used.DiskMB} of={p.Capacity.DiskMB} text={mib} c="p2" /></tr>)}</tbody>
      </table></div>
    </Panel>}
  </Page>
}

function Room({ used, of, text, c = '' }: { used: number; of: number; text: (n: number) => string; c?: string }) {
  return <td class={c}><Meter used={used} of={of} label={`${text(used)} of ${text(of)} used`} /><span class="small dim">{text(used)} of {text(of)}</span></td>
}
