// Logs that follow: with colours, search, wrapping and download. Lines beyond a
// bound are dropped at the top, which is said.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Ansi, plain } from '../ansi'
import { ApiError, objects, session, stream, url, headers } from '../api'
import { useParam } from '../router'
import { Empty, ErrorBox, toast } from '../ui'

const most = 20_000, rowHeight = 18

interface Line { n: number; text: string; el?: any }

export function Logs({ id, ns, task, running }: { id: string; ns: string; task: string; running: boolean }) {
  const [kind, setKind] = useParam('type', 'stdout')
  const [follow, setFollow] = useState(true)
  const [wrap, setWrap] = useState(false)
  const [find, setFind] = useState('')
  const [only, setOnly] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const [ended, setEnded] = useState(false)
  const [, tick] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const buf = useRef({ lines: [] as Line[], rest: '', n: 0, dropped: 0, ansi: new Ansi() })
  const [top, setTop] = useState(0)
  const stick = useRef(true)
  stick.current = follow

  useEffect(() => {
    if (!task || !session.may('read-logs', ns)) return
    const own = new AbortController()
    const b = (buf.current = { lines: [] as Line[], rest: '', n: 0, dropped: 0, ansi: new Ansi() })
    setError(null)
    setEnded(false)
    let frame = 0
    const draw = () => { frame = 0; tick((n) => n + 1) }
    const add = (t: string) => {
      const parts = (b.rest + t).split('\n')
      b.rest = parts.pop()!
      if (b.rest.length > 100_000) { parts.push(b.rest); b.rest = '' }
      for (const p of parts) b.lines.push({ n: ++b.n, text: p })
      if (b.lines.length > most) { b.dropped += b.lines.length - most; b.lines.splice(0, b.lines.length - most) }
      if (!frame) frame = requestAnimationFrame(draw)
    }
    const run = async () => {
      const decode = new TextDecoder()
      let wait = 500, file = '', next = 0 // where reading goes on after the connection was lost
      while (!own.signal.aborted) {
        try {
          const reader = await stream('/v1/client/fs/logs/' + id, { task, type: kind, follow: running, namespace: ns, ...(file ? { origin: 'start', file, offset: next } : { origin: 'end', offset: 200_000 }) }, own.signal)
          wait = 500
          setError(null)
          for await (const f of objects(reader)) {
            if (!f.Data) continue
            const data = Uint8Array.from(atob(f.Data), (c) => c.charCodeAt(0))
            file = f.File ?? file
            next = (f.Offset ?? 0) + data.length
            add(decode.decode(data, { stream: true }))
          }
          if (b.rest) { const r = b.rest; b.rest = ''; add(r + '\n') }
          setEnded(true)
          return
        } catch (e) {
          if (own.signal.aborted) return
          const err = e instanceof ApiError ? e : new ApiError(0, 'The connection to the log ended.')
          setError(err)
          if (err.status >= 400 && err.status < 500 && err.status !== 429) return
          await new Promise((r) => setTimeout(r, wait))
          wait = Math.min(8000, wait * 2)
        }
      }
    }
    run()
    return () => { own.abort(); cancelAnimationFrame(frame) }
  }, [id, task, kind, running])

  const mark = useMemo(() => (find ? new RegExp(find.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi') : undefined), [find])
  const b = buf.current
  const hit = (l: Line) => { if (!mark) return false; mark.lastIndex = 0; return mark.test(plain(l.text)) }
  const hits = mark ? b.lines.filter(hit).length : 0
  const lines = mark && only ? b.lines.filter(hit) : b.lines
  // Colours go on from line to line, so lines are made in order, once.
  for (const l of b.lines) if (l.el === undefined) l.el = b.ansi.line(l.text)
  const show = (l: Line) => (mark && hit(l) ? new Ansi().line(l.text, mark) : l.el)
  useEffect(() => { const el = box.current; if (el && follow) el.scrollTop = el.scrollHeight })
  const height = box.current?.clientHeight || 600
  const from = wrap ? Math.max(0, lines.length - 3000) : Math.max(0, Math.floor(top / rowHeight) - 20)
  const to = wrap ? lines.length : Math.min(lines.length, Math.ceil((top + height) / rowHeight) + 20)
  if (!session.may('read-logs', ns)) return <Empty title="Your token may not read logs">It lacks read-logs in namespace {ns}.</Empty>
  const download = async () => {
    try {
      const r = await fetch(url('/v1/client/fs/logs/' + id, { task, type: kind, plain: true, origin: 'start', namespace: ns }), { headers: headers() })
      if (!r.ok) throw new Error(await r.text())
      const a = document.createElement('a')
      a.href = URL.createObjectURL(new Blob([await r.blob()], { type: 'text/plain' }))
      a.download = `${task}.${kind}.${id.slice(0, 8)}.log`
      a.click()
      URL.revokeObjectURL(a.href)
    } catch (e) { toast((e as Error).message, 'bad') }
  }
  return <>
    <div class="tools">
      <select aria-label="Stream" value={kind} onChange={(e) => setKind(e.currentTarget.value)}><option value="stdout">stdout</option><option value="stderr">stderr</option></select>
      <input type="search" placeholder="Search in what was read" aria-label="Search in the log" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
      {find && <span class="small dim" aria-live="polite">{hits} lines</span>}
      {find && <label class="check small"><input type="checkbox" checked={only} onChange={(e) => setOnly(e.currentTarget.checked)} />only these</label>}
      <label class="check small"><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} />follow</label>
      <label class="check small"><input type="checkbox" checked={wrap} onChange={(e) => setWrap(e.currentTarget.checked)} />wrap</label>
      <button class="btn small" onClick={download}>Download</button>
    </div>
    <ErrorBox error={error} />
    <div class={'log' + (wrap ? ' soft' : '')} ref={box} tabIndex={0} role="log" aria-label={`${kind} of ${task}`} aria-live="off"
      onWheel={(e) => { if (e.deltaY < 0) setFollow(false) }}
      onScroll={(e) => { const el = e.currentTarget; setTop(el.scrollTop); if (el.scrollTop + el.clientHeight >= el.scrollHeight - 4 && !stick.current) setFollow(true) }}>
      {b.dropped > 0 && from === 0 && <div class="dim">… {b.dropped.toLocaleString('en')} earlier lines are not kept here: download the whole log</div>}
      {!wrap && <div style={{ height: from * rowHeight + 'px' }} />}
      {lines.slice(from, to).map((l) => <div class="ll" key={l.n}>{show(l)}{'\u200b'}</div>)}
      {!wrap && <div style={{ height: (lines.length - to) * rowHeight + 'px' }} />}
      {b.rest && <div class="ll">{plain(b.rest)}</div>}
      {b.lines.length === 0 && !b.rest && <div class="dim">{ended ? `Task ${task} wrote nothing to ${kind}.` : error ? '' : `Waiting for ${kind} of ${task}…`}</div>}
    </div>
  </>
}
