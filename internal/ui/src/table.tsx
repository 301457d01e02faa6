// Lists. PagedTable reads pages of a list from the server as they come into view,
// and forgets the rows of those that are far away. It draws only the rows that
// are seen.
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, get, session, type Params } from './api'
import { paced, useWatch } from './live'
import { go } from './router'
import { ErrorBox, Loading } from './ui'

export interface Column<T> { title: string; cell: (row: T) => ComponentChildren; class?: string }

const height = 36 // of a row, as in main.css

interface PageOf<T> { token: string; rows: T[] | null; count: number; next: string }

// active is the list that j, k and Enter move in.
export const active: { move?: (by: number) => void; open?: () => void } = {}

export function PagedTable<T>({ path, params = {}, watch, columns, rowKey, rowTo, empty, label, perPage = 60, short, onCount }: {
  path: string; params?: Params; watch: string[]; columns: Column<T>[]; rowKey: (row: T) => string; rowTo?: (row: T) => string
  empty: ComponentChildren; label: string; perPage?: number; short?: boolean; onCount?: (loaded: number, complete: boolean) => void
}) {
  const key = path + JSON.stringify(params) + session.region + session.token
  const box = useRef<HTMLDivElement>(null)
  const [, tick] = useState(0)
  const [view, setView] = useState({ top: 0, rows: 40 })
  const [sel, setSel] = useState(-1)
  const over = useRef(false)
  const list = useMemo(() => {
    const s = { pages: [{ token: '', rows: null, count: 0, next: '' }] as PageOf<T>[], error: null as ApiError | null, busy: false, held: null as null | (() => void), held_n: 0, started: false }
    const own = new AbortController()
    const read = async (i: number, hold: boolean) => {
      const p = s.pages[i]
      const a = await get<T[]>(path, { ...params, per_page: perPage, next_token: p.token }, own.signal)
      const rows = a.data ?? []
      const put = () => {
        s.pages[i] = { token: p.token, rows, count: rows.length, next: a.next }
        if (a.next && i === s.pages.length - 1) s.pages.push({ token: a.next, rows: null, count: 0, next: '' })
        else if (a.next && s.pages[i + 1] && s.pages[i + 1].token !== a.next) s.pages.splice(i + 1, s.pages.length, { token: a.next, rows: null, count: 0, next: '' })
        else if (!a.next) s.pages.length = i + 1
      }
      // While the pointer is over the list its rows stay where they are: what
      // they show changes in place, and what is new waits.
      if (hold && over.current && p.rows) {
        const fresh = new Map(rows.map((r) => [rowKey(r), r]))
        const known = new Set(p.rows.map(rowKey))
        const more = rows.filter((r) => !known.has(rowKey(r))).length
        const gone = p.rows.some((r) => !fresh.has(rowKey(r)))
        if (more || gone) {
          s.pages[i] = { ...p, rows: p.rows.map((r) => fresh.get(rowKey(r)) ?? r) }
          const before = s.held
          s.held = () => { before?.(); put() }
          s.held_n = more
          return
        }
      }
      put()
    }
    const guard = async (f: () => Promise<void>) => {
      if (s.busy) return
      s.busy = true
      try { await f(); s.error = null } catch (e) {
        if (own.signal.aborted) return
        s.error = e instanceof ApiError ? e : new ApiError(0, String(e))
      } finally { s.busy = false; s.started = true; tick((n) => n + 1) }
    }
    return { s, own, guard, read }
  }, [key])

  // place returns the pages that the rows from..to are in.
  const inView = (from: number, to: number) => {
    const out: number[] = []
    let at = 0
    list.s.pages.forEach((p, i) => {
      const n = Math.max(1, p.count) // one that is empty, or was never read, is looked at too
      if (at < to && at + n > from) out.push(i)
      at += n
    })
    return out
  }
  const want = (fresh: boolean) => list.guard(async () => {
    const first = Math.max(0, view.top - view.rows), last = view.top + 2 * view.rows
    const near = inView(first, last)
    for (const i of near) if (list.s.pages[i] && (fresh || list.s.pages[i].rows === null)) await list.read(i, fresh)
    list.s.pages.forEach((p, i) => { if (p.rows && !near.includes(i) && (i < near[0] - 1 || i > near[near.length - 1] + 1)) list.s.pages[i] = { ...p, rows: null } })
  })
  const latest = useRef(want)
  latest.current = want
  const pace = useMemo(() => paced(() => latest.current(true)), [key])
  useEffect(() => () => { pace.stop(); list.own.abort() }, [list])
  useEffect(() => { want(false) }, [list, view.top, view.rows])
  useWatch(watch, () => pace.plan())

  const { s } = list
  const shown: { row: T | null; key: string }[] = []
  let total = 0
  const from = Math.max(0, view.top - 8), to = view.top + view.rows + 8
  s.pages.forEach((p, i) => {
    for (let k = 0; k < p.count; k++, total++) if (total >= from && total < to) shown.push({ row: p.rows?.[k] ?? null, key: p.rows ? rowKey(p.rows[k]) : i + '.' + k })
  })
  const complete = s.pages[s.pages.length - 1].count > 0 || (s.started && s.pages.length === 1)
  const unread = s.pages[s.pages.length - 1].rows === null && s.pages.length > 1
  useEffect(() => { onCount?.(total, !unread) }, [total, unread])

  const rowAt = (n: number): T | null => {
    let at = 0
    for (const p of s.pages) { if (n < at + p.count) return p.rows?.[n - at] ?? null; at += p.count }
    return null
  }
  useLayoutEffect(() => { // at once: Enter may follow j before the next frame
    if (short) return
    active.move = (by) => setSel((v) => {
      const n = Math.max(0, Math.min(total - 1, v + by))
      const el = box.current
      if (el) { const y = n * height; if (y < el.scrollTop) el.scrollTop = y; else if (y + height * 2 > el.scrollTop + el.clientHeight) el.scrollTop = y - el.clientHeight + height * 2 }
      return n
    })
    active.open = () => { const r = rowAt(sel); if (r && rowTo) go(rowTo(r)) }
    return () => { active.move = active.open = undefined }
  })
  const measure = () => {
    const el = box.current
    if (!el) return
    const next = { top: Math.floor(el.scrollTop / height), rows: Math.ceil(el.clientHeight / height) }
    if (next.top !== view.top || next.rows !== view.rows) setView(next)
  }
  useEffect(() => { measure(); const o = new ResizeObserver(measure); if (box.current) o.observe(box.current); return () => o.disconnect() })

  const show = () => { s.held?.(); s.held = null; s.held_n = 0; tick((n) => n + 1) }
  const above = from * height, below = Math.max(0, total - to) * height + (unread ? height * 10 : 0)
  if (s.error && total === 0) return <ErrorBox error={s.error} retry={() => want(true)} />
  if (!s.started && total === 0) return <div class={'list' + (short ? ' short' : '')}><Loading what={label.toLowerCase()} /></div>
  return <>
    {s.error && <ErrorBox error={s.error} retry={() => want(true)} />}
    <div class={'list' + (short ? ' short' : '')} ref={box} tabIndex={0} role="region" aria-label={label} onScroll={measure}
      onPointerEnter={(e) => { over.current = e.pointerType === 'mouse' }} onPointerLeave={() => { over.current = false; if (s.held) show() }}>
      {s.held && <div class="more"><button class="btn small" onClick={show}>{s.held_n ? `${s.held_n} new: show` : 'The order changed: show'}</button></div>}
      {total === 0 && complete ? empty : <table aria-rowcount={unread ? -1 : total + 1}>
        <thead><tr>{columns.map((c) => <th key={c.title} class={c.class} scope="col">{c.title}</th>)}</tr></thead>
        <tbody>
          {above > 0 && <tr class="pad" aria-hidden="true"><td colSpan={columns.length} style={{ height: above + 'px' }} /></tr>}
          {shown.map((r, i) => <tr key={r.key} aria-rowindex={from + i + 2} aria-selected={sel === from + i ? 'true' : undefined}
            onClick={(e) => { if (r.row && rowTo && !(e.target as Element).closest('a,button,input') && !getSelection()?.toString()) go(rowTo(r.row)) }}>
            {columns.map((c) => <td key={c.title} class={c.class}>{r.row ? c.cell(r.row) : <span class="dim">…</span>}</td>)}
          </tr>)}
          {below > 0 && <tr class="pad" aria-hidden="true"><td colSpan={columns.length} style={{ height: below + 'px' }} /></tr>}
        </tbody>
      </table>}
    </div>
  </>
}

// Table shows rows that are all there.
export function Table<T>({ rows, columns, rowKey, empty, label, most = 200 }: { rows: T[]; columns: Column<T>[]; rowKey: (r: T) => string; empty?: ComponentChildren; label: string; most?: number }) {
  const [all, setAll] = useState(false)
  if (rows.length === 0) return <>{empty ?? <p class="dim" style={{ padding: '12px 16px' }}>None.</p>}</>
  const shown = all ? rows : rows.slice(0, most)
  return <div class="scroll-x" tabIndex={0} role="region" aria-label={label}><table>
    <thead><tr>{columns.map((c) => <th key={c.title} class={c.class} scope="col">{c.title}</th>)}</tr></thead>
    <tbody>{shown.map((r) => <tr key={rowKey(r)}>{columns.map((c) => <td key={c.title} class={c.class}>{c.cell(r)}</td>)}</tr>)}</tbody>
  </table>{shown.length < rows.length && <p style={{ padding: '8px 12px' }}><button class="btn small" onClick={() => setAll(true)}>Show all {rows.length}</button></p>}</div>
}
