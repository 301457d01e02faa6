// What is shown stays current through one event stream for the tab. It asks for
// the topics that the open page watches, goes on where it ended, and after a gap
// everything is read again. Nothing is asked while nothing changes.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, get, objects, session, stream, type Answer, type Params, type Start } from './api'

export interface LiveEvent { Topic: string; Type: string; Key: string; Namespace: string; FilterKeys: string[] | null; Index: number }
export type Connection = 'idle' | 'connecting' | 'live' | 'lost' | 'denied'

interface Watcher { topics: string[]; stale: (all: boolean) => void }
const watchers = new Set<Watcher>()
const observers = new Set<() => void>()
let connection: Connection = 'idle'
let topicsNow = ''
let abort: AbortController | null = null
let index = 0
let attempt = 0
let lastGap = 0
let timer: ReturnType<typeof setTimeout> | undefined

function state(c: Connection, again = false) { if (c !== connection || again) { connection = c; for (const o of [...observers]) o() } }

export function useConnection(): { state: Connection; attempt: number; gap: number } {
  const [, tick] = useState(0)
  useEffect(() => { const o = () => tick((n) => n + 1); observers.add(o); return () => { observers.delete(o) } }, [])
  return { state: connection, attempt, gap: lastGap }
}

function wanted() {
  const all = new Set<string>()
  for (const w of watchers) for (const t of w.topics) all.add(t)
  for (const t of [...all]) if (t.includes(':') && all.has(t.split(':')[0])) all.delete(t)
  return [...all].sort()
}

function matches(topics: string[], e: LiveEvent) {
  return topics.some((t) => {
    const at = t.indexOf(':')
    if (at < 0) return t === e.Topic
    const key = t.slice(at + 1)
    return t.slice(0, at) === e.Topic && (e.Key === key || !!e.FilterKeys?.includes(key))
  })
}

// update lets the stream follow what is watched. Pages change their watchers
// together, so it waits for them.
function update() {
  clearTimeout(timer)
  timer = setTimeout(() => {
    const topics = wanted().join('\n')
    if (topics === topicsNow && abort) return
    topicsNow = topics
    abort?.abort()
    abort = null
    if (topics) run(topics.split('\n')); else state('idle')
  }, 30)
}

export function restart() { abort?.abort(); abort = null; topicsNow = ''; index = 0; attempt = 0; update(); staleAll() }

function staleAll() { for (const w of [...watchers]) w.stale(true) }

async function run(topics: string[]) {
  const mine = (abort = new AbortController())
  const over = () => mine.signal.aborted
  let silent: ReturnType<typeof setTimeout> | undefined
  while (!over()) {
    const call = new AbortController()
    mine.signal.addEventListener('abort', () => call.abort(), { once: true })
    const alive = () => { clearTimeout(silent); silent = setTimeout(() => call.abort(), 30_000) }
    try {
      if (connection !== 'live') state(attempt ? 'lost' : 'connecting')
      alive()
      if (!index) {
        index = (await get<Start>('/v1/ui/start', {}, call.signal)).data.Index
        if (attempt) staleAll()
      }
      const q = topics.map((t) => 'topic=' + encodeURIComponent(t.includes(':') ? t : t + ':*')).join('&')
      const reader = await stream('/v1/event/stream?' + q + `&payload=false&every=250ms&namespace=*&index=${index + 1}` + (session.region ? '&region=' + encodeURIComponent(session.region) : ''), { region: null }, call.signal)
      attempt = 0
      state('live')
      for await (const o of objects(reader)) {
        if (over()) return
        alive()
        if (o.Error) { // what comes next is no longer kept
          lastGap = Date.now()
          index = 0
          attempt = 1
          break
        }
        if (o.Index > index) index = o.Index
        if (o.Events) deliver(o.Events)
      }
    } catch (e) {
      if (over()) return
      if (e instanceof ApiError && e.denied) { state('denied'); clearTimeout(silent); return }
    }
    clearTimeout(silent)
    if (over()) return
    attempt++
    state('lost', true)
    const wait = Math.min(8000, 250 * 2 ** Math.min(attempt, 6)) * (0.75 + Math.random() / 2)
    await new Promise((r) => setTimeout(r, wait))
  }
}

function deliver(events: LiveEvent[]) {
  for (const w of [...watchers]) if (events.some((e) => matches(w.topics, e))) w.stale(false)
}

// useWatch calls stale when something that is watched has changed.
export function useWatch(topics: string[], stale: (all: boolean) => void) {
  const f = useRef(stale)
  f.current = stale
  const key = topics.join('\n')
  useEffect(() => {
    if (!key) return
    const w: Watcher = { topics: key.split('\n'), stale: (all) => f.current(all) }
    watchers.add(w)
    update()
    return () => { watchers.delete(w); update() }
  }, [key])
}

// paced calls f soon, and not more often than calls of its length allow: a list
// that takes long is read seldom. Hidden pages wait until they are seen.
export function paced(f: () => Promise<unknown>, least = 350) {
  let running = false, again = false, last = 0, took = 0, t: ReturnType<typeof setTimeout> | undefined, stopped = false
  const start = async () => {
    if (stopped) return
    if (document.hidden) { document.addEventListener('visibilitychange', plan, { once: true }); return }
    running = true
    again = false
    const at = performance.now()
    await f().catch(() => undefined)
    last = performance.now()
    took = last - at
    running = false
    if (again) plan()
  }
  const plan = () => {
    if (running) { again = true; return }
    clearTimeout(t)
    const rest = Math.min(10_000, Math.max(least, took * 8)) - (performance.now() - last)
    t = setTimeout(start, Math.max(40, last ? rest : 40))
  }
  return { plan, stop: () => { stopped = true; clearTimeout(t) } }
}

const kept = new Map<string, Answer<any>>() // the last answers, so that going back shows something at once
function keep(key: string, a: Answer<any>) {
  kept.delete(key)
  kept.set(key, a)
  if (kept.size > 60) kept.delete(kept.keys().next().value!)
}
session.subscribe(() => kept.clear())

export interface Query<T> { data: T | undefined; next: string; error: ApiError | null; loading: boolean; refresh: () => void }

// useQuery reads a path and reads it again when something that it watches
// changes. A null path reads nothing.
export function useQuery<T>(path: string | null, params: Params = {}, watch: string[] = []): Query<T> {
  const key = path === null ? '' : path + '?' + JSON.stringify(params) + session.region
  const [, tick] = useState(0)
  const state = useRef<{ key: string; answer?: Answer<T>; error: ApiError | null }>({ key: '', error: null })
  if (state.current.key !== key) state.current = { key, answer: kept.get(key), error: null }
  const job = useMemo(() => {
    const own = new AbortController()
    const read = async () => {
      if (!key) return
      try {
        const a = await get<T>(path!, params, own.signal)
        if (state.current.key !== key) return
        keep(key, a)
        state.current = { key, answer: a, error: null }
      } catch (e) {
        if (own.signal.aborted || state.current.key !== key) return
        const err = e instanceof ApiError ? e : new ApiError(0, String(e))
        state.current = { key, answer: err.status === 404 || err.denied ? undefined : state.current.answer, error: err }
      }
      tick((n) => n + 1)
    }
    return { read, own, pace: paced(read) }
  }, [key])
  useEffect(() => {
    job.read()
    return () => { job.pace.stop(); job.own.abort() }
  }, [job])
  useWatch(key ? watch : [], () => job.pace.plan())
  const s = state.current
  return { data: s.answer?.data, next: s.answer?.next ?? '', error: s.error, loading: !s.answer && !s.error, refresh: () => { job.read() } }
}
