// The pieces that pages are made of.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, session } from './api'
import { Icon } from './icons'
import { href } from './router'

// ---- status: a shape, a colour and a word

export type Tone = 'ok' | 'warn' | 'bad' | 'idle' | 'info'
type Shape = 'dot' | 'half' | 'ring' | 'cross' | 'check' | 'square' | 'dash'
const shapes: Record<Shape, string> = {
  dot: 'M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1z', half: 'M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM6 2.6a3.4 3.4 0 0 0 0 6.800z', ring: 'M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM6 3a3 3 0 1 0 0 6 3 3 0 0 0 0-6z',
  cross: 'M2.6 1.2L6 4.6l3.4-3.4 1.4 1.4L7.4 6l3.4 3.4-1.4 1.4L6 7.4l-3.4 3.4-1.4-1.4L4.6 6 1.2 2.6z', check: 'M1 6.5L2.4 5l2.3 2.3L9.6 2.3 11 3.8 4.7 10.2z', square: 'M2 2h8v8H2z', dash: 'M1 5h10v2H1z',
}
const states: Record<string, [Tone, Shape, string?]> = {
  running: ['ok', 'dot'], healthy: ['ok', 'dot'], ready: ['ok', 'dot'], alive: ['ok', 'dot'], passing: ['ok', 'dot'], success: ['ok', 'dot'], successful: ['ok', 'check'],
  complete: ['idle', 'check', 'finished'], finished: ['idle', 'check'], dead: ['idle', 'square'], stopped: ['idle', 'square'], stop: ['idle', 'square', 'stopping'], evict: ['warn', 'square', 'preempted'],
  pending: ['info', 'half', 'starting'], starting: ['info', 'half'], initializing: ['info', 'half'], queued: ['info', 'half'], scheduling: ['info', 'half'], applying: ['info', 'half'], restarting: ['warn', 'half'],
  blocked: ['warn', 'ring', 'waiting for capacity'], waiting: ['warn', 'ring', 'waiting for capacity'], delayed: ['info', 'ring'], paused: ['warn', 'ring'], draining: ['warn', 'ring'], ineligible: ['warn', 'ring'], unknown: ['warn', 'ring'], disconnected: ['warn', 'ring'], warning: ['warn', 'ring'],
  failed: ['bad', 'cross'], failure: ['bad', 'cross'], critical: ['bad', 'cross'], unhealthy: ['bad', 'cross'], lost: ['bad', 'cross'], down: ['bad', 'cross'], 'gave up': ['bad', 'cross'],
  cancelled: ['idle', 'dash'], canceled: ['idle', 'dash'], left: ['idle', 'dash'],
}
export function toneOf(state: string): Tone { return states[state]?.[0] ?? 'idle' }
export function Status({ state, text, pill }: { state: string; text?: string; pill?: boolean }) {
  const [tone, shape, word] = states[state] ?? ['idle', 'dash']
  return <span class={`status ${tone}${pill ? ' pill ' + tone : ''}`}><svg viewBox="0 0 12 12" fill="currentColor" fill-rule="evenodd" aria-hidden="true"><path d={shapes[shape]} /></svg>{text ?? word ?? state}</span>
}

// Squares shows allocations by state: one square each, or a number beyond that.
export function Squares({ counts }: { counts: [string, number][] }) {
  const some = counts.filter(([, n]) => n > 0)
  const total = some.reduce((sum, [, n]) => sum + n, 0)
  const label = some.map(([s, n]) => `${n} ${s}`).join(', ') || 'none'
  if (total === 0) return <span class="dim">–</span>
  return <span class="squares" role="img" aria-label={label} title={label}>
    {total <= 16 ? some.map(([s, n]) => Array.from({ length: n }, (_, i) => <i key={s + i} class={s} />)) : some.map(([s, n]) => [<i key={s} class={s} />, <b key={s + 'n'}>{n.toLocaleString('en')}</b>])}
  </span>
}

// ---- time and numbers

const clock = { listeners: new Set<() => void>() }
setInterval(() => { if (!document.hidden) for (const l of [...clock.listeners]) l() }, 10_000)
export function ago(ms: number, now = Date.now()): string {
  const s = Math.round((now - ms) / 1000)
  const a = Math.abs(s)
  const t = a < 5 ? 'now' : a < 60 ? a + ' s' : a < 3600 ? Math.floor(a / 60) + ' min' : a < 86400 ? Math.floor(a / 3600) + ' h' : Math.floor(a / 86400) + ' d'
  return t === 'now' ? t : s < 0 ? 'in ' + t : t + ' ago'
}
export function exact(ms: number) { return new Date(ms).toISOString().replace('T', ' ').replace('Z', ' UTC') }
// millis reads the API's times: ns since 1970, or RFC 3339. 0 is none.
export function millis(t: number | string | null | undefined): number {
  if (!t) return 0
  if (typeof t === 'number') return t / 1e6
  const ms = Date.parse(t)
  return ms > 0 ? ms : 0
}
export function Time({ at }: { at: number | string | null | undefined }) {
  const [, tick] = useState(0)
  const ms = millis(at)
  useEffect(() => { const l = () => tick((n) => n + 1); clock.listeners.add(l); return () => { clock.listeners.delete(l) } }, [])
  if (!ms) return <span class="dim">–</span>
  return <time dateTime={new Date(ms).toISOString()} title={exact(ms)}>{ago(ms)}</time>
}
export function mib(n: number) { return n >= 10240 ? (n / 1024).toFixed(n >= 102400 ? 0 : 1) + ' GiB' : Math.round(n).toLocaleString('en') + ' MiB' }
export function bytes(n: number) { return n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toFixed(1) + ' KiB' : n < 1073741824 ? (n / 1048576).toFixed(1) + ' MiB' : (n / 1073741824).toFixed(2) + ' GiB' }
export function mhz(n: number) { return n >= 10000 ? (n / 1000).toFixed(1) + ' GHz' : Math.round(n).toLocaleString('en') + ' MHz' }
export function span(ms: number) { return ms < 1 ? ms.toFixed(2) + ' ms' : ms < 1000 ? Math.round(ms) + ' ms' : ms < 60_000 ? (ms / 1000).toFixed(1) + ' s' : ms < 3.6e6 ? (ms / 6e4).toFixed(1) + ' min' : (ms / 3.6e6).toFixed(1) + ' h' }
export function plural(n: number, one: string, more = one + 's') { return n.toLocaleString('en') + ' ' + (n === 1 ? one : more) }
export const short = (id: string) => (id || '').slice(0, 8)

export function Meter({ used, of, label }: { used: number; of: number; label: string }) {
  const part = of > 0 ? Math.min(1, used / of) : 0
  return <span class={'meter' + (part >= 0.9 ? ' high' : '')} role="img" aria-label={label} title={label}><i style={{ width: (part * 100).toFixed(1) + '%' }} /></span>
}

// ---- copying

export async function copyText(t: string) {
  try { await navigator.clipboard.writeText(t); toast('Copied') } catch {
    const a = document.createElement('textarea') // pages without TLS have no clipboard
    a.value = t
    document.body.append(a)
    a.select()
    const ok = document.execCommand('copy')
    a.remove()
    toast(ok ? 'Copied' : 'Your browser did not allow copying', ok ? '' : 'bad')
  }
}
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  return <button class="icon-btn" type="button" aria-label={label} title={label} onClick={(e) => { e.preventDefault(); e.stopPropagation(); copyText(text) }}><Icon name="copy" /></button>
}
export function Cmd({ text }: { text: string }) { return <span class="cmd"><span>{text}</span><Copy text={text} label="Copy the command" /></span> }
export function ID({ id, to }: { id: string; to?: string }) {
  if (!id) return <span class="dim">–</span>
  return <span class="mono">{to ? <a href={href(to)} title={id}>{short(id)}</a> : <span title={id}>{short(id)}</span>}<Copy text={id} label="Copy the whole ID" /></span>
}

// ---- messages

let toastKey = 0
let addToast: (t: { key: number; text: string; tone: string }) => void = () => undefined
export function toast(text: string, tone = '') { addToast({ key: ++toastKey, text, tone }) }
export function Toasts() {
  const [list, set] = useState<{ key: number; text: string; tone: string }[]>([])
  addToast = (t) => {
    set((l) => [...l.slice(-3), t])
    setTimeout(() => set((l) => l.filter((x) => x.key !== t.key)), t.tone === 'bad' ? 9000 : 3500)
  }
  return <div class="toasts" role="status" aria-live="polite">{list.map((t) => <div key={t.key} class={'toast ' + t.tone}>{t.text}</div>)}</div>
}

export function advice(e: ApiError): string {
  if (e.status === 0) return 'The page goes on by itself when the agent answers again.'
  if (e.denied) return session.start?.ACL && !session.start.SignedIn ? 'Sign in with a token in Settings.' : 'Ask somebody who may change policies for this right, or sign in with another token in Settings.'
  if (e.status === 404) return 'It may have been deleted since, or belong to another namespace.'
  if (e.status === 429) return 'The agent is busy. Try again in a few seconds.'
  if (e.status >= 500) return 'The log of the agent says more. If there is no leader, wait until one is elected.'
  return ''
}
export function ErrorBox({ error, retry }: { error: ApiError | null; retry?: () => void }) {
  if (!error) return null
  return <div class="error" role="alert"><div class="grow stack8"><p><b>{error.message}</b></p><p class="small">{advice(error)} {error.denied && <a href={href('/settings')}>Settings</a>}</p></div>{retry && !error.denied && <button class="btn small" onClick={retry}>Try again</button>}</div>
}
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return <div class="empty"><b>{title}</b>{children && <div>{children}</div>}{command && <Cmd text={command} />}</div>
}
export function Loading({ what = '' }: { what?: string }) {
  const [late, set] = useState(false)
  useEffect(() => { const t = setTimeout(() => set(true), 250); return () => clearTimeout(t) }, [])
  return <div class="skel" aria-busy="true">{late ? `Loading ${what}…` : ''}</div>
}

// ---- pages

export function Page({ title, answer, crumbs, status, actions, children, fill, command }: {
  title: string; answer?: ComponentChildren; crumbs?: [string, string][]; status?: ComponentChildren; actions?: ComponentChildren; children?: ComponentChildren; fill?: boolean; command?: string
}) {
  useEffect(() => { document.title = title + ' · Berth' }, [title])
  return <div class={'page' + (fill ? ' fill' : '')}>
    <div class="head">
      {crumbs && <nav class="crumbs" aria-label="Path">{crumbs.map(([name, to], i) => <span key={to}>{i > 0 && '› '}<a href={href(to)}>{name}</a></span>)}</nav>}
      <div class="row"><h1 class="grow" style={{ flex: '0 1 auto' }}>{title}</h1>{status}<span class="grow" />{actions}</div>
      {answer && <p class="answer">{answer}</p>}
    </div>
    {children}
    {command && <div class="foot"><span>The same on the command line: <Cmd text={command} /></span></div>}
  </div>
}
export function Panel({ title, actions, children, flush }: { title?: ComponentChildren; actions?: ComponentChildren; children?: ComponentChildren; flush?: boolean }) {
  return <section class="panel">{title !== undefined && <header><h2 class="grow">{title}</h2>{actions}</header>}{flush ? children : <div class="body">{children}</div>}</section>
}
export function Tabs({ tabs, at }: { tabs: { id: string; name: string; to: string; count?: number | string }[]; at: string }) {
  return <nav class="tabs" aria-label="Views">{tabs.map((t) => <a key={t.id} href={href(t.to)} aria-current={t.id === at ? 'page' : undefined}>{t.name}{t.count !== undefined && <span class="count"> {t.count}</span>}</a>)}</nav>
}
export function Facts({ of }: { of: [string, ComponentChildren][] }) { return <div class="facts">{of.map(([k, v]) => <div key={k}><div class="v">{v}</div><div class="k">{k}</div></div>)}</div> }
export function KV({ of }: { of: [string, ComponentChildren][] }) { return <dl class="kv">{of.map(([k, v]) => [<dt key={k}>{k}</dt>, <dd key={k + '.'}>{v === '' || v === undefined || v === null ? <span class="dim">–</span> : v}</dd>])}</dl> }

// Action is a button that needs a right: without it, it says so.
export function Action({ need, ns, onClick, children, tone = '', disabled, why }: { need: string; ns?: string; onClick: () => void; children: ComponentChildren; tone?: string; disabled?: boolean; why?: string }) {
  const may = session.may(need, ns)
  const reason = !may ? `Your token lacks ${need}${ns ? ` in namespace "${ns}"` : ''}.` : disabled ? why : undefined
  return <button type="button" class={'btn ' + tone} aria-disabled={!may || disabled ? 'true' : undefined} title={reason} onClick={() => (reason || disabled ? toast(reason ?? 'Not now.') : onClick())}>{children}</button>
}

// ---- dialogs

export interface DialogProps { title: string; children?: ComponentChildren; confirm?: string; tone?: string; busy?: boolean; error?: ApiError | null; onConfirm?: () => void; onClose: () => void; wide?: boolean }
export function Dialog({ title, children, confirm, tone = 'main-action', busy, error, onConfirm, onClose, wide }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  useEffect(() => { const d = ref.current!; if (!d.open) d.showModal(); return () => d.close() }, [])
  return <dialog ref={ref} aria-label={title} style={wide ? { width: 'min(1000px, calc(100vw - 32px))' } : undefined} onCancel={(e) => { e.preventDefault(); onClose() }} onClick={(e) => { if (e.target === ref.current) onClose() }}>
    <header><h2>{title}</h2><button class="icon-btn" aria-label="Close" onClick={onClose}><Icon name="close" /></button></header>
    <div class="body">{children}<ErrorBox error={error ?? null} /></div>
    {onConfirm && <footer><button class="btn" onClick={onClose}>Cancel</button><button class={'btn ' + tone} disabled={busy} onClick={onConfirm}>{busy ? 'Working…' : confirm ?? 'OK'}</button></footer>}
  </dialog>
}

// useTask runs something that a person asked for: busy meanwhile, with the error
// if it fails.
export function useTask() {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const run = async (f: () => Promise<unknown>, done?: string): Promise<boolean> => {
    setBusy(true)
    setError(null)
    try {
      await f()
      if (done) toast(done)
      return true
    } catch (e) {
      setError(e instanceof ApiError ? e : new ApiError(0, String(e)))
      return false
    } finally { setBusy(false) }
  }
  return { busy, error, run, setError }
}

// Table1 is a plain table of few rows.
export function Table1({ head, rows, label, classes = [] }: { head: string[]; rows: ComponentChildren[][]; label: string; classes?: string[] }) {
  if (rows.length === 0) return <p class="dim" style={{ padding: '10px 12px' }}>None.</p>
  return <div class="scroll-x" tabIndex={0} role="region" aria-label={label}><table><thead><tr>{head.map((h, i) => <th key={h + i} scope="col" class={classes[i]}>{h}</th>)}</tr></thead>
    <tbody>{rows.map((r, i) => <tr key={i}>{r.map((c, k) => <td key={k} class={'wrap ' + (classes[k] ?? '')}>{c}</td>)}</tr>)}</tbody></table></div>
}
