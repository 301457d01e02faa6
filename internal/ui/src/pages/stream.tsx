// A stream job as a graph: processing elements and what they send to each other.
// Elements of a group are one box when there are many.
import { enc, session, write } from '../api'
import { useMemo, useState } from 'preact/hooks'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { href, to } from '../router'
import { ErrorBox, Facts, KV, Loading, Page, Panel, Status, Table1, Time, plural } from '../ui'
import { Confirm } from './job'

interface Port { Name: string; Port?: string; Peers: string[] | null }
interface PE { Name: string; UID: string; ID: number; Group: string; Index: number; Region: string; Channel: number; Generation: number; LaunchCount: number; Connectivity: string; Inputs: Port[] | null; Outputs: Port[] | null; Allocation?: { ID: string; NodeID: string; NodeName: string; ClientStatus: string } | null; Orphaned?: boolean }
interface Standing { Phase: string; State: string; Generation: number; Version: number; Newest: number; Expected: Record<string, number> | null; Observed: Record<string, number> | null; Missing: string[] | null; Stale: string[] | null; Deadline: number; Retries: number; Ready: boolean; LastError: string; Recovery: { Count: number; LastCause: string } | null }
interface Route { From: { JobID: string; PE: string; Port: string; Name: string }; To: { JobID: string; PE: string; Port: string; Name: string }; By: string; Filter: string }
interface Box { key: string; text: string; sub: string; state: string; to: string; layer: number; row: number }

const most = 80 // boxes; beyond that groups are drawn

export function graphOf(pes: PE[]): { boxes: Box[]; edges: [string, string][]; grouped: boolean } {
  const grouped = pes.length > most
  const key = (p: PE) => (grouped ? p.Group : p.Name)
  const byName = new Map(pes.map((p) => [p.Name, p]))
  const peer = (s: string) => { for (let t = s; t; t = t.slice(0, Math.max(t.lastIndexOf('.'), t.lastIndexOf(':'), t.lastIndexOf('/'), 0))) if (byName.has(t)) return byName.get(t); return undefined }
  const edges = new Map<string, [string, string]>()
  for (const p of pes) {
    for (const o of p.Outputs ?? []) for (const x of o.Peers ?? []) { const q = peer(x); if (q) edges.set(key(p) + '\n' + key(q), [key(p), key(q)]) }
    for (const i of p.Inputs ?? []) for (const x of i.Peers ?? []) { const q = peer(x); if (q) edges.set(key(q) + '\n' + key(p), [key(q), key(p)]) }
  }
  const boxes = new Map<string, Box>()
  for (const p of pes) {
    const k = key(p), run = p.Allocation?.ClientStatus === 'running', s = run ? (p.Connectivity === 'full' || (!p.Inputs?.length && !p.Outputs?.length) ? 'running' : 'starting') : p.Allocation?.ClientStatus ?? 'waiting'
    const had = boxes.get(k)
    if (had) { had.sub = plural(Number(had.sub.split(' ')[0]) + 1, 'element'); if (s !== 'running') had.state = s } else boxes.set(k, { key: k, text: grouped ? p.Group : p.Name.slice(p.Name.indexOf('.') + 1), sub: grouped ? '1 element' : p.Allocation?.NodeName ?? 'no node', state: s, to: !grouped && p.Allocation ? to.alloc(p.Allocation.ID) : '', layer: 0, row: 0 })
  }
  const list = [...boxes.values()], es = [...edges.values()].filter(([a, b]) => a !== b)
  for (let pass = 0; pass < list.length; pass++) { // longest path; cycles end with the number of boxes
    let moved = false
    for (const [a, b] of es) { const x = boxes.get(a)!, y = boxes.get(b)!; if (y.layer < x.layer + 1 && x.layer + 1 < list.length) { y.layer = x.layer + 1; moved = true } }
    if (!moved) break
  }
  const rows = new Map<number, number>()
  for (const b of list.sort((x, y) => (x.key < y.key ? -1 : 1))) { b.row = rows.get(b.layer) ?? 0; rows.set(b.layer, b.row + 1) }
  return { boxes: list, edges: es, grouped }
}

export default function StreamPage({ place }: PageProps) {
  const id = place.parts[1] ?? '', ns = place.query.get('ns') ?? 'default', params = { namespace: ns }
  const topics = ['Resource:' + id, 'Allocation:' + id, 'Job:' + id]
  const s = useQuery<Standing>('/v1/stream/job/' + enc(id), params, topics)
  const pes = useQuery<PE[]>('/v1/stream/pes', { ...params, job: id }, topics)
  const routes = useQuery<Route[]>('/v1/stream/routes', { ...params, job: id }, topics)
  const [width, setWidth] = useState<string | null>(null)
  const g = useMemo(() => graphOf(pes.data ?? []), [pes.data])
  const x = s.data
  if (!x) return <Page title={id} crumbs={[['Stream jobs', '/streams']]}>{s.error ? <ErrorBox error={s.error} retry={s.refresh} /> : <Loading what="the stream job" />}</Page>
  const list = pes.data ?? [], regions = [...new Set(list.map((p) => p.Region).filter(Boolean))]
  const W = 170, H = 46, gx = 70, gy = 14, layers = Math.max(0, ...g.boxes.map((b) => b.layer)) + 1, tall = Math.max(1, ...g.boxes.map((b) => b.row + 1))
  const at = (b: Box) => ({ x: 12 + b.layer * (W + gx), y: 12 + b.row * (H + gy) })
  const byKey = new Map(g.boxes.map((b) => [b.key, b]))
  const tone: Record<string, string> = { running: 'var(--ok)', starting: 'var(--info)', pending: 'var(--info)', failed: 'var(--bad)', lost: 'var(--bad)', waiting: 'var(--warn)' }
  return <Page title={id} crumbs={[['Stream jobs', '/streams'], [id, to.job(ns, id)]]} command={`berth stream status ${id}`} status={<Status state={x.Ready ? 'running' : x.Phase === 'Failed' ? 'failed' : x.Phase === 'Stopped' ? 'stopped' : 'starting'} text={x.Ready ? 'ready' : x.Phase.toLowerCase()} pill />}
    answer={x.Ready ? `All ${plural(list.length, 'processing element')} run with all their connections.` : x.LastError ? `The submission has a problem: ${x.LastError}` : x.Phase === 'Submitted' ? `It is submitted; ${list.filter((p) => p.Connectivity !== 'full').length} of ${plural(list.length, 'processing element')} do not have all their connections yet.` : `It is being submitted, and waits for: ${x.State}.`}>
    <Panel title="Submission"><div class="stack8"><Facts of={[['phase', x.Phase], ['generation', x.Generation], ['version', x.Version + (x.Newest !== x.Version ? ` of ${x.Newest}` : '')], ['recoveries', x.Recovery?.Count ?? 0], ['retries', x.Retries]]} />
      <KV of={[['Objects', Object.entries(x.Expected ?? {}).map(([k, n]) => `${x.Observed?.[k] ?? 0} of ${n} ${k}`).join(', ')], ...(x.Missing?.length ? [['Missing', x.Missing.slice(0, 10).join(', ')] as [string, any]] : []), ...(x.Deadline && !x.Ready ? [['Gives up', <Time at={x.Deadline} />] as [string, any]] : []), ...(x.Recovery?.LastCause ? [['Last recovery', x.Recovery.LastCause] as [string, any]] : [])]} />
      {regions.length > 0 && <div class="row">{regions.map((r) => <button key={r} class="btn small" disabled={!session.may('scale-job', ns)} onClick={() => setWidth(r)}>Region {r}: width {new Set(list.filter((p) => p.Region === r).map((p) => p.Channel)).size}…</button>)}</div>}</div></Panel>
    <Panel title={<>Graph{g.grouped && <span class="dim small" style={{ fontWeight: 400 }}> of groups: {list.length} elements are too many to draw</span>}</>}>
      {g.boxes.length === 0 ? <p class="dim">Nothing is planned yet.</p> : <div class="scroll-x" tabIndex={0} role="region" aria-label="Graph"><svg width={24 + layers * (W + gx) - gx} height={24 + tall * (H + gy) - gy} class="graph">
        {g.edges.map(([a, b]) => { const p = at(byKey.get(a)!), q = at(byKey.get(b)!), x1 = p.x + W, y1 = p.y + H / 2, x2 = q.x, y2 = q.y + H / 2, m = (x1 + x2) / 2; return <path key={a + b} d={`M${x1} ${y1} C${m} ${y1} ${m} ${y2} ${x2} ${y2}`} /> })}
        {g.boxes.map((b) => { const p = at(b), body = <g><rect x={p.x} y={p.y} width={W} height={H} rx={6} /><circle cx={p.x + 13} cy={p.y + 16} r={4} style={{ fill: tone[b.state] ?? 'var(--idle)' }} /><text x={p.x + 24} y={p.y + 20} class="t">{b.text.length > 20 ? b.text.slice(0, 19) + '…' : b.text}<title>{b.key}</title></text><text x={p.x + 24} y={p.y + 36} class="s">{(b.state + ' · ' + b.sub).slice(0, 26)}</text></g>; return b.to ? <a key={b.key} href={href(b.to)}>{body}</a> : <g key={b.key}>{body}</g> })}
      </svg></div>}
    </Panel>
    <Panel title="Processing elements" flush><Table1 label="Processing elements" head={['Element', 'State', 'Connections', 'Launches', 'Node']} rows={list.slice(0, 500).map((p) => [p.Allocation ? <a href={href(to.alloc(p.Allocation.ID))}>{p.Name}</a> : p.Name, <Status state={p.Allocation?.ClientStatus ?? 'waiting'} />, p.Connectivity || '–', p.LaunchCount, p.Allocation?.NodeName ?? '–'])} /></Panel>
    {(routes.data ?? []).length > 0 && <Panel title="Routes to and from other jobs" flush><Table1 label="Routes" head={['From', 'To', 'By', 'Filter']} rows={routes.data!.slice(0, 500).map((r) => [`${r.From.PE} ${r.From.Port}`, `${r.To.PE} ${r.To.Port}`, r.By, r.Filter && <code>{r.Filter}</code>])} /></Panel>}
    {width && <Width ns={ns} id={id} region={width} onClose={() => setWidth(null)} />}
  </Page>
}
function Width({ ns, id, region, onClose }: { ns: string; id: string; region: string; onClose: () => void }) {
  const [n, setN] = useState(1)
  return <Confirm title={`Width of region ${region}`} confirm={`Set to ${n}`} done="The width is changed" onClose={onClose} run={() => write('PUT', `/v1/stream/job/${enc(id)}/region/${enc(region)}`, { Width: n }, { namespace: ns })} text="A new generation is planned: channels are added or taken away, and the elements beside the region get new connections."><label class="field">Channels<input type="number" min={1} max={1000} value={n} onInput={(e) => setN(Math.max(1, Number(e.currentTarget.value) || 1))} /></label></Confirm>
}
