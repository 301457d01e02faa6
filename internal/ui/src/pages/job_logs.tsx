// The logs of all instances of a job in one view. A browser has six connections
// to an agent, so the logs are asked in turn, not followed each by its own.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Ansi, plain } from '../ansi'
import { ApiError, enc, objects, session, stream } from '../api'
import { useQuery } from '../live'
import { href, to, useParam } from '../router'
import type { AllocStub } from '../types'
import { Empty, ErrorBox, plural } from '../ui'
import type { JobView } from './job'

const most = 5000, shownMost = 2000, sources = 24, pause = 1500

interface Line { n: number; from: string; id: string; text: string; el: any }
interface Source { file: string; next: number; rest: string; decode: TextDecoder; ansi: Ansi; done: boolean }

export function JobLogs({ v }: { v: JobView }) {
  const { ns, id } = v
  const names = [...new Set((v.job.TaskGroups ?? []).flatMap((g) => g.Tasks.map((t) => t.Name)))]
  const [task, setTask] = useParam('task', names[0] ?? '')
  const [kind, setKind] = useParam('type', 'stdout')
  const [find, setFind] = useParam('find')
  const [wrap, setWrap] = useState(false)
  const [follow, setFollow] = useState(true)
  const [error, setError] = useState<ApiError | null>(null)
  const [, tick] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  const lines = useRef<Line[]>([])
  const may = session.may('read-logs', ns)
  const allocs = useQuery<AllocStub[]>(may ? `/v1/job/${enc(id)}/allocations` : null, { namespace: ns, per_page: 1000, reverse: true }, ['Allocation:' + id])
  const having = (allocs.data ?? []).filter((a) => a.TaskStates?.[task]?.StartedAt || a.ClientStatus === 'running')
  const of = having.sort((a, b) => Number(b.ClientStatus === 'running') - Number(a.ClientStatus === 'running') || b.CreateIndex - a.CreateIndex).slice(0, sources)
  const now = useRef(of)
  now.current = of

  useEffect(() => {
    if (!may || !task) return
    const own = new AbortController(), known = new Map<string, Source>()
    lines.current = []
    let n = 0
    const add = (a: AllocStub, s: Source, t: string, end: boolean) => {
      const parts = (s.rest + t).split('\n')
      s.rest = parts.pop()!
      if (end && s.rest) { parts.push(s.rest); s.rest = '' }
      for (const p of parts) lines.current.push({ n: ++n, from: a.Name.slice(a.JobID.length + 1), id: a.ID, text: p, el: s.ansi.line(p) })
      if (lines.current.length > most) lines.current.splice(0, lines.current.length - most)
      if (parts.length) tick((x) => x + 1)
    }
    const read = async (a: AllocStub) => {
      const s = known.get(a.ID) ?? { file: '', next: 0, rest: '', decode: new TextDecoder(), ansi: new Ansi(), done: false }
      known.set(a.ID, s)
      if (s.done) return
      const over = a.ClientStatus !== 'running' && a.ClientStatus !== 'pending'
      const reader = await stream('/v1/client/fs/logs/' + a.ID, { task, type: kind, follow: false, namespace: ns, ...(s.file ? { origin: 'start', file: s.file, offset: s.next } : { origin: 'end', offset: 20_000 }) }, own.signal)
      for await (const f of objects(reader)) {
        if (!f.Data) continue
        const data = Uint8Array.from(atob(f.Data), (c) => c.charCodeAt(0))
        s.file = f.File ?? s.file
        s.next = (f.Offset ?? 0) + data.length
        add(a, s, s.decode.decode(data, { stream: true }), false)
      }
      s.done = over
      if (over) add(a, s, '', true)
    }
    const run = async () => {
      while (!own.signal.aborted) {
        if (!document.hidden) for (const a of now.current) {
          try { await read(a); setError(null) } catch (e) {
            if (own.signal.aborted) return
            if (e instanceof ApiError && !e.missing) setError(e)
          }
        }
        await new Promise((r) => setTimeout(r, now.current.length ? pause : 200))
      }
    }
    run()
    return () => own.abort()
  }, [id, ns, task, kind, may])

  const mark = useMemo(() => (find ? new RegExp(find.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi') : undefined), [find])
  const hit = (l: Line) => { if (!mark) return true; mark.lastIndex = 0; return mark.test(plain(l.text)) || l.from.toLowerCase().includes(find.toLowerCase()) }
  useEffect(() => { const el = box.current; if (el && follow) el.scrollTop = el.scrollHeight })
  if (!may) return <Empty title="Your token may not read logs">It lacks read-logs in namespace {ns}.</Empty>
  const chosen = lines.current.filter(hit), list = chosen.slice(-shownMost)
  return <div class="stack8">
    <div class="tools">
      {names.length > 1 && <select aria-label="Task" value={task} onChange={(e) => setTask(e.currentTarget.value)}>{names.map((t) => <option key={t}>{t}</option>)}</select>}
      <select aria-label="Stream" value={kind} onChange={(e) => setKind(e.currentTarget.value)}><option value="stdout">stdout</option><option value="stderr">stderr</option></select>
      <input type="search" placeholder="Only lines with…" aria-label="Only lines with" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
      <label class="check small"><input type="checkbox" checked={follow} onChange={(e) => setFollow(e.currentTarget.checked)} />follow</label>
      <label class="check small"><input type="checkbox" checked={wrap} onChange={(e) => setWrap(e.currentTarget.checked)} />wrap</label>
      <span class="small dim">{plural(of.length, 'allocation')}{having.length > of.length && ` of ${having.length}: the newest`}{chosen.length > list.length && `, the last ${plural(list.length, 'line')}`}</span>
    </div>
    <ErrorBox error={error ?? allocs.error} />
    <div class={'log together' + (wrap ? ' soft' : '')} ref={box} tabIndex={0} role="log" aria-live="off" aria-label={`${kind} of all instances`} onWheel={(e) => { if (e.deltaY < 0) setFollow(false) }}>
      {list.map((l) => <div class="ll" key={l.n}><a class="from" href={href(to.alloc(l.id, 'logs', task))}>{l.from}</a> {mark ? new Ansi().line(l.text, mark) : l.el}</div>)}
      {list.length === 0 && <div class="dim">{allocs.loading ? '' : of.length === 0 ? 'No instance has started yet.' : find ? 'No line that was read has it.' : `Nothing was written to ${kind} yet.`}</div>}
    </div>
  </div>
}
