// The timeline: time runs from left to right, a lane is an evaluation. Idle time
// is shortened, because an evaluation takes milliseconds and the next may follow
// after a week: the width of a pause grows with its logarithm.
import { useMemo, useState } from 'preact/hooks'
import { enc } from '../api'
import { useQuery } from '../live'
import { href, to } from '../router'
import type { AllocStub, Trace, TracedEval } from '../types'
import { Empty, ErrorBox, ID, KV, Loading, Panel, Status, Time, ago, exact, millis, plural, short, span } from '../ui'

interface Segment { kind: string; from: number; to: number; open?: boolean }
interface Lane { e: TracedEval; segments: Segment[]; marks: { at: number; kind: string; text: string }[]; start: number; end: number }
const most = 60 // lanes that are drawn

export function segmentsOf(e: TracedEval, now: number): Segment[] {
  const t = e.Timeline, ms = (n: number) => n / 1e6, out: Segment[] = []
  let at = ms(e.CreateTime)
  const put = (kind: string, to: number, open = false) => { if (to > at) { out.push({ kind, from: at, to, open }); at = to } }
  const until = millis(e.WaitUntil)
  if (until > at) put('delayed', Math.min(until, t.Enqueued ? ms(t.Enqueued) : e.Status === 'pending' ? until : ms(e.ModifyTime)))
  if (e.Status === 'blocked') { put('blocked', now, true); return out }
  if (t.Enqueued) put(e.TriggeredBy === 'queued-allocs' || e.TriggeredBy === 'preemption' ? 'blocked' : 'queued', ms(t.Enqueued))
  if (t.Dequeued) put('queued', ms(t.Dequeued)); else if (e.Status === 'pending') { put('queued', now, true); return out }
  if (t.Applied || t.Planned) put('scheduling', ms(t.Applied || t.Planned))
  if (t.Acked) put('applying', ms(t.Acked)); else if (e.Status === 'pending' && t.Dequeued) put(t.Applied ? 'applying' : 'scheduling', now, true)
  if (!t.Enqueued && e.ModifyTime > e.CreateTime && !out.length) put(e.Status === 'canceled' ? 'blocked' : 'scheduling', ms(e.ModifyTime))
  return out
}

// scaleOf maps times to places: between neighbouring moments the width is that
// of the logarithm of what lies between them.
function scaleOf(times: number[], zoom: number) {
  const t = [...new Set(times)].filter((x) => x > 0).sort((a, b) => a - b)
  const x = [0]
  for (let i = 1; i < t.length; i++) x.push(x[i - 1] + (4 + 14 * Math.log10(1 + (t[i] - t[i - 1]))) * zoom)
  const place = (v: number) => {
    if (t.length === 0 || v <= t[0]) return 0
    if (v >= t[t.length - 1]) return x[x.length - 1]
    let lo = 0, hi = t.length - 1
    while (hi - lo > 1) { const m = (lo + hi) >> 1; if (t[m] <= v) lo = m; else hi = m }
    return x[lo] + ((v - t[lo]) / (t[hi] - t[lo])) * (x[hi] - x[lo])
  }
  return { place, width: x[x.length - 1] ?? 0, times: t }
}

export function Timeline({ ns, id }: { ns: string; id: string }) {
  const trace = useQuery<Trace>(`/v1/job/${enc(id)}/trace`, { namespace: ns }, ['Evaluation:' + id, 'Allocation:' + id])
  const allocs = useQuery<AllocStub[]>(`/v1/job/${enc(id)}/allocations`, { namespace: ns, per_page: 200, reverse: true }, ['Allocation:' + id])
  if (!trace.data) return trace.error ? <ErrorBox error={trace.error} retry={trace.refresh} /> : <Loading what="the timeline" />
  return <Lanes evals={trace.data.Evals ?? []} allocs={allocs.data ?? []} />
}

export function Lanes({ evals, allocs }: { evals: TracedEval[]; allocs: AllocStub[] }) {
  const all = [...evals].sort((a, b) => a.CreateTime - b.CreateTime || a.CreateIndex - b.CreateIndex)
  const changed = (e: TracedEval) => (e.Placed?.length ?? 0) + (e.Updated?.length ?? 0) + (e.Stopped?.length ?? 0) > 0 || e.Status === 'blocked' || e.Status === 'failed' || e.Status === 'pending' || !!e.FailedTGAllocs
  const [fold, setFold] = useState(all.length > 30)
  const [zoom, setZoom] = useState(1)
  const [end, setEnd] = useState(0) // lanes left out at the end
  const [sel, setSel] = useState('')
  const [hover, setHover] = useState('')
  const kept = fold ? all.filter(changed) : all
  const shown = kept.slice(Math.max(0, kept.length - most - end), kept.length - end)
  const now = Date.now()
  const data = useMemo(() => {
    const lanes: Lane[] = shown.map((e) => {
      const segments = segmentsOf(e, now)
      const decided = (e.Timeline.Applied || e.ModifyTime) / 1e6
      const marks: Lane['marks'] = []
      if (e.Placed?.length) marks.push({ at: decided, kind: 'place', text: plural(e.Placed.length, 'placement') })
      if (e.Updated?.length) marks.push({ at: decided, kind: 'update', text: `${e.Updated.length} updated in place` })
      if (e.Stopped?.length) marks.push({ at: decided, kind: 'stop', text: plural(e.Stopped.length, 'stop') })
      return { e, segments, marks, start: e.CreateTime / 1e6, end: segments[segments.length - 1]?.to ?? e.ModifyTime / 1e6 }
    })
    const shownIDs = new Set(shown.map((e) => e.ID))
    const health = allocs.filter((a) => shownIDs.has(a.EvalID)).flatMap((a) => {
      const out: { at: number; kind: string; text: string; id: string }[] = []
      const h = a.DeploymentStatus
      if (h && h.Healthy !== null && millis(h.Timestamp)) out.push({ at: millis(h.Timestamp), kind: h.Healthy ? 'healthy' : 'unhealthy', text: `${a.Name} ${h.Healthy ? 'healthy' : 'unhealthy'}`, id: a.ID })
      for (const [name, t] of Object.entries(a.TaskStates ?? {})) {
        if (millis(t.StartedAt)) out.push({ at: millis(t.StartedAt), kind: 'started', text: `${a.Name} ${name} started`, id: a.ID })
        if (millis(t.FinishedAt)) out.push({ at: millis(t.FinishedAt), kind: t.Failed ? 'unhealthy' : 'stop', text: `${a.Name} ${name} ${t.Failed ? 'failed' : 'ended'}`, id: a.ID })
      }
      return out
    }).sort((a, b) => a.at - b.at).slice(-200)
    return { lanes, health, scale: scaleOf([...lanes.flatMap((l) => [l.start, l.end, ...l.segments.flatMap((s) => [s.from, s.to])]), ...health.map((h) => h.at)], zoom) }
  }, [shown.map((e) => e.ID + e.ModifyIndex).join(), allocs, zoom, Math.floor(now / 10000)])
  if (all.length === 0) return <Empty title="No evaluation is known">They are collected some time after the job has ended.</Empty>
  const { lanes, health, scale } = data
  const left = 8, rowH = 30, head = 26, labelW = 190
  const x = (t: number) => left + scale.place(t)
  const width = Math.max(520, scale.width + 60), height = head + rowH * (lanes.length + 1) + 8
  const y = (i: number) => head + rowH * (i + 1)
  const place = new Map(lanes.map((l, i) => [l.e.ID, i]))
  const ticks: { t: number; x: number }[] = []
  for (const t of scale.times) { const at = x(t); if (!ticks.length || at - ticks[ticks.length - 1].x > 110) ticks.push({ t, x: at }) }
  const chosen = lanes.find((l) => l.e.ID === sel)?.e
  return <div class="stack">
    <Panel title={`${plural(all.length, 'evaluation')}${shown.length < all.length ? `, ${shown.length} shown` : ''}`} actions={<div class="row">
      {all.length > kept.length || fold ? <label class="check small"><input type="checkbox" checked={fold} onChange={(e) => setFold(e.currentTarget.checked)} />Only those that changed something</label> : null}
      {kept.length - end > most && <button class="btn small" onClick={() => setEnd(end + most)}>Earlier</button>}{end > 0 && <button class="btn small" onClick={() => setEnd(Math.max(0, end - most))}>Later</button>}
      <button class="btn small" aria-label="Zoom out" onClick={() => setZoom(Math.max(0.25, zoom / 1.5))}>−</button><button class="btn small" aria-label="Zoom in" onClick={() => setZoom(Math.min(8, zoom * 1.5))}>+</button></div>} flush>
      <div class="lanes">
        <div class="lane-names" style={{ width: labelW + 'px', paddingTop: head + 'px' }}>
          <div class="lane-name dim" style={{ height: rowH + 'px' }}>Tasks</div>
          {lanes.map((l) => <button key={l.e.ID} class="lane-name" aria-pressed={sel === l.e.ID} style={{ height: rowH + 'px', paddingLeft: 12 + Math.min(6, l.e.Depth) * 8 + 'px' }} title={l.e.TriggeredBy} onClick={() => setSel(sel === l.e.ID ? '' : l.e.ID)}>{l.e.Parent ? '↳ ' : ''}{l.e.TriggeredBy}</button>)}
        </div>
        <div class="lane-plot" tabIndex={0} role="region" aria-label="Timeline, scrolls sideways" onWheel={(e) => { if (e.ctrlKey) { e.preventDefault(); setZoom(Math.max(0.25, Math.min(8, zoom * (e.deltaY < 0 ? 1.15 : 1 / 1.15)))) } }}>
          <svg width={width} height={height} style={{ minWidth: '100%' }} role="group" aria-label={`Timeline of ${shown.length} evaluations`}>
            {ticks.map((t) => <g key={t.t}><line x1={t.x} x2={t.x} y1={head - 6} y2={height} class="grid" /><text x={t.x + 3} y={12} class="tick">{new Date(t.t).toLocaleTimeString('en-GB')}<title>{exact(t.t)}</title></text></g>)}
            {lanes.map((l, i) => <rect key={l.e.ID} x={0} y={y(i)} width="100%" height={rowH} class={'lane' + (sel === l.e.ID ? ' sel' : i % 2 ? ' odd' : '')} onClick={() => setSel(l.e.ID)} />)}
            {lanes.map((l, i) => {
              const p = place.get(l.e.Parent)
              if (p === undefined) return null
              const from = lanes[p], x1 = x(Math.min(from.end, l.start)), y1 = y(p) + rowH / 2 + 6, x2 = x(l.start), y2 = y(i) + rowH / 2
              return <path key={'a' + l.e.ID} class={'arrow' + (hover === l.e.ID || sel === l.e.ID ? ' on' : '')} d={`M${x1} ${y1} V${y2 - 4} Q${x1} ${y2} ${Math.min(x2, x1 + 4)} ${y2} H${x2}`}><title>{l.e.Link}: caused by the evaluation {short(l.e.Parent)}</title></path>
            })}
            {lanes.map((l, i) => <g key={'s' + l.e.ID} onPointerEnter={() => setHover(l.e.ID)} onPointerLeave={() => setHover('')} onClick={() => setSel(l.e.ID)}>
              {l.segments.map((s) => <rect key={s.kind + s.from} class={'seg ' + s.kind} x={x(s.from)} y={y(i) + 9} width={Math.max(3, x(s.to) - x(s.from))} height={12} rx={2}><title>{`${s.kind}: ${span(s.to - s.from)}${s.open ? ' so far' : ''}\nfrom ${exact(s.from)}${s.open ? '' : '\nto ' + exact(s.to)}`}</title></rect>)}
              {l.marks.map((m, k) => <Mark key={m.kind} x={x(m.at) + 6 + k * 12} y={y(i) + 15} kind={m.kind} text={`${m.text}\n${exact(m.at)}`} />)}
              {l.e.Status === 'failed' && <Mark x={x(l.end) + 6} y={y(i) + 15} kind="unhealthy" text={'failed: ' + l.e.StatusDescription} />}
            </g>)}
            {health.map((h) => <a key={h.text + h.at} href={href(to.alloc(h.id))} aria-label={h.text}><Mark x={x(h.at)} y={head + 15} kind={h.kind} text={`${h.text}\n${exact(h.at)}`} /></a>)}
          </svg>
        </div>
      </div>
      <div class="legend">{[['delayed', 'delayed'], ['blocked', 'waiting for capacity'], ['queued', 'queued'], ['scheduling', 'scheduling'], ['applying', 'applying']].map(([c, n]) => <span key={c}><i class={'seg ' + c} />{n}</span>)}
        {[['place', 'placed'], ['stop', 'stopped'], ['started', 'task started'], ['healthy', 'healthy'], ['unhealthy', 'failed']].map(([c, n]) => <span key={c}><svg width="14" height="14"><Mark x={7} y={7} kind={c} text={n} /></svg>{n}</span>)}<span>Pauses are shortened: hover for exact times.</span></div>
    </Panel>
    {chosen && <EvalDetails e={chosen} />}
  </div>
}

function Mark({ x, y, kind, text }: { x: number; y: number; kind: string; text: string }) {
  const d: Record<string, string> = { place: 'M-5 4L0 -5L5 4z', update: 'M-5 0L0 -5L5 0L0 5z', stop: 'M-4 -4h8v8h-8z', started: 'M-4 0a4 4 0 1 1 8 0a4 4 0 1 1 -8 0M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0', healthy: 'M-4.5 0a4.5 4.5 0 1 1 9 0a4.5 4.5 0 1 1 -9 0', unhealthy: 'M-4.5 -3L-3 -4.5L0 -1.5L3 -4.5L4.5 -3L1.5 0L4.5 3L3 4.5L0 1.5L-3 4.5L-4.5 3L-1.5 0z' }
  return <path class={'mark ' + kind} d={d[kind]} fill-rule="evenodd" transform={`translate(${x} ${y})`}><title>{text}</title></path>
}

export function EvalDetails({ e }: { e: TracedEval }) {
  const ms = (n: number) => (n ? <span>{exact(n / 1e6)}</span> : '')
  const list = (name: string, l: TracedEval['Placed']) => (l && l.length > 0 ? [[name, <span>{l.slice(0, 20).map((a) => <div key={a.ID}><a href={href(to.alloc(a.ID))}>{a.Name}</a> on <a href={href(to.node(a.NodeID))}>{a.NodeName}</a>{a.Why && <span class="dim"> – {a.Why}</span>}</div>)}{l.length > 20 && `and ${l.length - 20} more`}</span>] as [string, any]] : [])
  return <Panel title={<>Evaluation {short(e.ID)}</>} actions={<a class="btn small" href={href(to.eval(e.ID))}>Open</a>}>
    <KV of={[['Trigger', e.TriggeredBy], ['Status', <><Status state={e.QuasiStatus || e.Status} /> {e.StatusDescription}</>], ...(e.Cause?.Kind ? [['Caused by', `${e.Cause.Kind} ${e.Cause.ID}`] as [string, any]] : []), ...(e.Parent ? [['Follows', <><ID id={e.Parent} to={to.eval(e.Parent)} /> ({e.Link})</>] as [string, any]] : []),
      ['Created', <>{ms(e.CreateTime)} (<Time at={e.CreateTime} />)</>], ['Queued', ms(e.Timeline.Enqueued)], ['Scheduling began', ms(e.Timeline.Dequeued)], ['Decided', ms(e.Timeline.Applied || e.Timeline.Planned)], ['Committed', e.Timeline.Acked ? <>{ms(e.Timeline.Acked)} <span class="dim">({span((e.Timeline.Acked - e.CreateTime) / 1e6)} after it was created, {ago(e.Timeline.Acked / 1e6)})</span></> : ''],
      ...list('Placed', e.Placed), ...list('Updated', e.Updated), ...list('Stopped', e.Stopped)]} />
  </Panel>
}
