// Why a job does not run: needs against what nodes offer, the nodes that come
// closest, and the smallest change that was tried and works.
import { enc, session } from '../api'
import { href, to } from '../router'
import type { Change, GroupWhy, Shortage } from '../types'
import { Empty, ID, Loading, Panel, Status, Table1, Time, plural } from '../ui'
import type { JobView } from './job'

const amount = (n: number, unit: string) => n.toLocaleString('en') + (unit ? ' ' + unit : '')
// editable are changes of the job itself, which the editor can make.
export function editable(c: Change): boolean { return !c.Nodes && !!(c.Less || c.Drop?.length || c.Datacenter || c.NodePool || c.Misspelt || c.Port?.Dynamic) && (!c.And || editable(c.And)) }

export function Why({ v }: { v: JobView }) {
  const w = v.why
  if (!w) return <Loading what="the explanation" />
  const groups = w.Groups ?? []
  const missing = groups.filter((g) => g.Missing > 0)
  return <div class="stack">
    {(w.Waits ?? []).length > 0 && <Panel title="It waits for" flush><Table1 label="What the job waits for" head={['Evaluation', 'State', 'Why', 'Until']} rows={w.Waits!.map((x) => [<ID id={x.EvalID} to={to.eval(x.EvalID)} />, <Status state={x.QuasiStatus || x.Status} />, <>{x.Why} <span class="dim small">({x.TriggeredBy})</span></>, <Time at={x.Until} />])} /></Panel>}
    {missing.map((g) => <Missing key={g.Group} g={g} v={v} />)}
    {missing.length === 0 && groups.length > 0 && <Panel title="Groups" flush><Table1 label="Groups" head={['Group', 'Wanted', 'Live', 'State']} rows={groups.map((g) => [<b>{g.Group}</b>, g.Wanted, g.Live, g.Summary])} /></Panel>}
    {groups.some((g) => g.Allocs?.length) && <Panel title="Why its allocations are where they are" flush>
      <Table1 label="Why allocations are where they are" head={['Allocation', 'Node', 'Reason']} rows={groups.flatMap((g) => (g.Allocs ?? []).slice(0, 20).map((a) => [<a href={href(to.alloc(a.AllocID))}>{a.Name}</a>, <a href={href(to.node(a.NodeID))}>{a.NodeName}</a>, a.Text]))} />
    </Panel>}
    {groups.length === 0 && <Empty title="There is nothing to explain">{w.Summary}</Empty>}
  </div>
}

function Missing({ g, v }: { g: GroupWhy; v: JobView }) {
  const conditions = Object.entries(g.Conditions ?? {}).sort((a, b) => b[1] - a[1])
  const shortages = g.Shortages ?? []
  const changes = g.Changes ?? []
  return <Panel title={<>{g.Group}: <span class="warn">{plural(g.Missing, 'instance')} cannot be placed</span></>}>
    <div class="why-group">
      <p>{g.Summary.charAt(0).toUpperCase() + g.Summary.slice(1)}.</p>
      {g.Quota && g.Quota.length > 0 && <div class="note warn">The namespace's quota has too little left: {g.Quota.join('; ')}. Nodes were not searched.</div>}
      {changes.length > 0 && <div class="stack8"><h3>What would help</h3><p class="small dim">Each alone places all that is missing. Each was tried on a copy of the state.</p>
        {changes.map((c, i) => <ChangeRow key={i} c={c} i={i} g={g} v={v} />)}</div>}
      {g.Nodes === 0 && !g.Quota && <div class="note warn">No node is ready in the job's datacenters and node pool.</div>}
      {g.Unknown && <div class="note warn">No node has {g.Unknown.map((u, i) => <>{i > 0 && ', '}<code>{u.Attribute}</code>{u.Similar && <> (the most similar one is <code>{u.Similar}</code>)</>}</>)}.</div>}
      {(conditions.length > 0 || shortages.length > 0) && <div class="stack8"><h3>What was found on {plural(g.Nodes, 'ready node')}</h3>
        <Table1 label="What is missing" head={['What it needs', 'Most that is free', 'Nodes without it']} rows={[
          ...conditions.map(([c, n]) => [<>meets <code>{c}</code></>, '–', <Share n={n} of={g.Nodes} />]),
          ...shortages.map((s) => [<>{s.Dimension}: {amount(s.Wanted, s.Unit)}</>, s.Holder ? 'taken by ' + s.Holder : amount(s.Free, s.Unit), <Share n={s.Nodes} of={g.Nodes} />]),
        ]} /></div>}
      {g.Nearest && g.Nearest.length > 0 && <div class="stack8"><h3>The nodes that come closest</h3>
        <Table1 label="Nearest nodes" head={['Node', 'What it lacks']} rows={g.Nearest.map((n) => [<a href={href(to.node(n.NodeID))}>{n.Name}</a>, [...(n.Unmet ?? []).map((u) => `does not meet ${u}`), ...(n.Shortages ?? []).map(lack)].join('; ') || '–'])} /></div>}
    </div>
  </Panel>
}
function lack(s: Shortage) { return s.Holder ? `${s.Dimension} is taken by ${s.Holder}` : `${amount(Math.max(0, s.Wanted - s.Free), s.Unit)} of ${s.Dimension} too little (${amount(s.Free, s.Unit)} free)` }
function Share({ n, of }: { n: number; of: number }) { return <span>{n} <span class="dim">of {of}</span></span> }

function ChangeRow({ c, i, g, v }: { c: Change; i: number; g: GroupWhy; v: JobView }) {
  const may = session.may('submit-job', v.ns)
  return <div class="change"><span class="wrap" style={{ flex: '1 1 300px' }}>{c.Text.charAt(0).toUpperCase() + c.Text.slice(1)}</span>
    {editable(c) && (may ? <a class="btn main-action" href={href(`/run?job=${enc(v.id)}&ns=${enc(v.ns)}&group=${enc(g.Group)}&change=${i}`)}>Make this change…</a> : <span class="small dim">Your token lacks submit-job.</span>)}
    {(c.And ? [c, c.And] : [c]).map((x) => <>
      {x.Present && <a class="btn" href={href(to.node(x.Present.NodeID))}>Open {x.Present.NodeName}</a>}
      {x.Port && !x.Port.Dynamic && <a class="btn" href={href(to.alloc(x.Port.AllocID))}>Open {x.Port.Holder}</a>}
    </>)}
  </div>
}
