// The topology: every node as a cell, filled by what of it is given away. It is
// drawn on a canvas; ten thousand cells are one frame.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useQuery } from '../live'
import { go, to, useParam } from '../router'
import { color, onTheme } from '../theme'
import { Empty, ErrorBox, Loading, Page, mhz, mib, plural } from '../ui'
import { Choice } from './jobs'
import { WhatIfPanel } from './what_if'

interface Topology {
  Pools: string[] | null; Datacenters: string[] | null; Racks: string[] | null; ID: string[] | null; Name: string[]; Pool: number[]; Datacenter: number[]; Rack: number[]; State: string[]
  CPU: number[]; CPUUsed: number[]; Memory: number[]; MemoryUsed: number[]; Disk: number[]; DiskUsed: number[]; Allocs: number[]; OfJob?: number[] | null
}
interface Cell { i: number; x: number; y: number }
interface Label { text: string; x: number; y: number }

// layout places the cells of groups in rows that fill the width.
export function layout(t: Topology, by: string, width: number): { cells: Cell[]; labels: Label[]; size: number; height: number } {
  const n = t.ID?.length ?? 0
  const size = n > 4000 ? 11 : n > 1500 ? 15 : n > 300 ? 22 : n > 60 ? 32 : 54
  const gap = size > 20 ? 4 : 2
  const key = (i: number) => (by === 'pool' ? t.Pools![t.Pool[i]] : by === 'datacenter' ? t.Datacenters![t.Datacenter[i]] : t.Racks![t.Rack[i]] || 'no rack')
  const groups = new Map<string, number[]>()
  for (let i = 0; i < n; i++) { const k = key(i); const g = groups.get(k); if (g) g.push(i); else groups.set(k, [i]) }
  const cells: Cell[] = [], labels: Label[] = [], head = 24
  let x = 0, y = 0, row = 0
  for (const [name, list] of [...groups].sort((a, b) => (a[0] < b[0] ? -1 : 1))) {
    // A group is about as wide as high, at least as wide as its name.
    const cols = Math.max(1, Math.min(Math.floor(width / (size + gap)), Math.max(Math.ceil(110 / (size + gap)), Math.ceil(Math.sqrt(list.length * 3)))))
    const w = cols * (size + gap) + 20, h = head + Math.ceil(list.length / cols) * (size + gap) + 16
    if (x > 0 && x + w - 20 > width) { x = 0; y += row; row = 0 }
    labels.push({ text: `${name} · ${list.length}`, x, y: y + 15 })
    list.forEach((i, k) => cells.push({ i, x: x + (k % cols) * (size + gap), y: y + head + Math.floor(k / cols) * (size + gap) }))
    x += w
    row = Math.max(row, h)
  }
  return { cells, labels, size, height: y + row }
}

export default function TopologyPage() {
  const [by, setBy] = useParam('by', 'pool')
  const [what, setWhat] = useParam('color', 'memory')
  const [job, setJob] = useParam('job')
  const [ns] = useParam('ns', 'default')
  const [find, setFind] = useParam('q')
  const q = useQuery<Topology>('/v1/ui/topology', { job: job || undefined, namespace: ns }, job ? ['Node', 'Allocation:' + job] : ['Node', 'Allocation'])
  const t = q.data
  const box = useRef<HTMLDivElement>(null), canvas = useRef<HTMLCanvasElement>(null)
  const [width, setWidth] = useState(0)
  const [hover, setHover] = useState<Cell | null>(null)
  const [, theme] = useState(0)
  useEffect(() => onTheme(() => theme((n) => n + 1)), [])
  useEffect(() => {
    const el = box.current
    if (!el) return
    const o = new ResizeObserver(() => setWidth(el.clientWidth))
    o.observe(el)
    setWidth(el.clientWidth)
    return () => o.disconnect()
  }, [!!t])
  const plan = useMemo(() => (t?.ID && width ? layout(t, by, width) : null), [t, by, width])
  const share = (i: number) => (!t ? 0 : what === 'cpu' ? t.CPUUsed[i] / (t.CPU[i] || 1) : what === 'disk' ? t.DiskUsed[i] / (t.Disk[i] || 1) : what === 'job' ? ((t.OfJob?.[i] ?? 0) > 0 ? 1 : 0) : t.MemoryUsed[i] / (t.Memory[i] || 1))
  useEffect(() => {
    const c = canvas.current
    if (!c || !plan || !t) return
    const frame = requestAnimationFrame(() => {
      const began = performance.now()
      const dpr = Math.min(2, devicePixelRatio || 1)
      c.width = Math.max(1, Math.floor(width * dpr))
      c.height = Math.max(1, Math.floor(Math.min(plan.height, 30000) * dpr))
      const g = c.getContext('2d', { alpha: true })!
      g.scale(dpr, dpr)
      const s = plan.size, fill = color('fill'), back = color('fill2'), bad = color('bad'), warn = color('warn'), idle = color('idle-bg'), ok = color('ok'), accent = color('accent')
      g.font = '600 12px ' + getComputedStyle(document.body).fontFamily
      g.fillStyle = color('text')
      for (const l of plan.labels) g.fillText(l.text, l.x, l.y)
      const low = find.toLowerCase()
      for (const k of plan.cells) {
        const st = t.State[k.i], dimmed = low !== '' && !t.Name[k.i].toLowerCase().includes(low)
        g.globalAlpha = dimmed ? 0.15 : 1
        if (st === 'down' || st === 'disconnected' || st === 'initializing') {
          g.fillStyle = idle
          g.fillRect(k.x, k.y, s, s)
          g.strokeStyle = st === 'down' ? bad : warn
          g.lineWidth = s > 20 ? 2 : 1.5
          g.beginPath(); g.moveTo(k.x + 2, k.y + 2); g.lineTo(k.x + s - 2, k.y + s - 2); if (st === 'down') { g.moveTo(k.x + s - 2, k.y + 2); g.lineTo(k.x + 2, k.y + s - 2) } g.stroke()
          continue
        }
        g.fillStyle = back
        g.fillRect(k.x, k.y, s, s)
        const f = Math.min(1, share(k.i)), h = Math.round(f * s)
        g.fillStyle = what === 'job' ? ok : f >= 0.9 ? warn : fill
        g.fillRect(k.x, k.y + s - h, s, h)
        if (job && what !== 'job' && (t.OfJob?.[k.i] ?? 0) > 0) { g.strokeStyle = ok; g.lineWidth = s > 20 ? 3 : 2; g.strokeRect(k.x + 1, k.y + 1, s - 2, s - 2) }
        if (st !== 'ready') { g.strokeStyle = warn; g.lineWidth = 1.5; g.strokeRect(k.x + 0.75, k.y + 0.75, s - 1.5, s - 1.5) }
      }
      g.globalAlpha = 1
      if (hover) { g.strokeStyle = accent; g.lineWidth = 2; g.strokeRect(hover.x - 1, hover.y - 1, s + 2, s + 2) }
      c.dataset.frame = (performance.now() - began).toFixed(2)
    })
    return () => cancelAnimationFrame(frame)
  })
  const at = (e: MouseEvent): Cell | null => {
    const r = canvas.current!.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top, s = plan?.size ?? 0
    return plan?.cells.find((c) => x >= c.x && x < c.x + s && y >= c.y && y < c.y + s) ?? null
  }
  const n = t?.ID?.length ?? 0
  const full = t?.ID ? t.ID.filter((_, i) => t.State[i] === 'ready' && share(i) >= 0.9).length : 0
  const name = { memory: 'memory', cpu: 'cpu', disk: 'disk', job: 'allocations of the job' }[what] ?? what
  return <Page title="Topology" answer={t ? (n ? `${plural(n, 'node')}. ${what === 'job' ? (job ? `${plural((t.OfJob ?? []).filter((x) => x > 0).length, 'node runs', 'nodes run')} allocations of ${job}.` : 'Name a job to see where it runs.') : full ? `${plural(full, 'has', 'have')} less than a tenth of their ${name} left.` : n === 1 ? `It has more than a tenth of its ${name} left.` : `All have more than a tenth of their ${name} left.`}` : 'No node has registered yet.') : undefined}>
    <div class="tools">
      <input type="search" placeholder="Highlight nodes by name" aria-label="Highlight nodes" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
      <Choice label="Group by" value={by} set={setBy} of={[['pool', 'By node pool'], ['datacenter', 'By datacenter'], ['rack', 'By rack (meta.rack)']]} />
      <Choice label="Fill shows" value={what} set={setWhat} of={[['memory', 'Memory given away'], ['cpu', 'CPU given away'], ['disk', 'Disk given away'], ['job', 'A job’s allocations']]} />
      <label class="row small">Job <input type="text" size={16} value={job} placeholder="ID" onChange={(e) => setJob(e.currentTarget.value.trim())} /></label>
    </div>
    <ErrorBox error={q.error} retry={q.refresh} />
    {!t && !q.error && <Loading what="nodes" />}
    {t && n === 0 && <Empty title="No node yet" command="berth agent -client -servers 10.0.0.1:4647" />}
    {t && n > 0 && <section class="panel"><div class="body" ref={box} style={{ position: 'relative' }}>
      <div style={{ height: (plan ? Math.min(plan.height, 30000) : 200) + 'px' }}><canvas ref={canvas} role="img" aria-label={`${n} nodes by ${by}, filled by ${name}`} style={{ width: '100%', height: '100%', cursor: hover ? 'pointer' : 'default' }} onPointerMove={(e) => { const c = at(e); if (c !== hover) setHover(c) }} onPointerLeave={() => setHover(null)} onClick={(e) => { const c = at(e); if (c) go(to.node(t.ID![c.i])) }} /></div>
      {hover && plan && <div class="tip" style={{ left: Math.min(hover.x, width - 250) + 'px', top: hover.y + plan.size + 22 + 'px' }}><b>{t.Name[hover.i]}</b> <span class="dim">{t.State[hover.i]}</span><div>{t.Datacenters![t.Datacenter[hover.i]]} · {t.Pools![t.Pool[hover.i]]}{t.Racks![t.Rack[hover.i]] && ' · rack ' + t.Racks![t.Rack[hover.i]]}</div><div>free: {mhz(t.CPU[hover.i] - t.CPUUsed[hover.i])}, {mib(t.Memory[hover.i] - t.MemoryUsed[hover.i])}, {mib(t.Disk[hover.i] - t.DiskUsed[hover.i])} disk</div><div>{plural(t.Allocs[hover.i], 'allocation')}{job && `, ${t.OfJob?.[hover.i] ?? 0} of ${job}`}</div></div>}
    </div><div class="legend"><span><i style={{ background: 'var(--fill)' }} />given away</span><span><i style={{ background: 'var(--warn)' }} />nine tenths or more</span><span><i style={{ background: 'var(--fill2)' }} />free</span><span><i style={{ border: '2px solid var(--warn)' }} />draining or ineligible</span><span>crossed out: down or disconnected</span></div></section>}
    {t && n > 0 && <WhatIfPanel racks={(t.Racks ?? []).filter(Boolean)} datacenters={t.Datacenters ?? []} pools={t.Pools ?? []} names={t.Name} />}
  </Page>
}
