// The frame around every page: navigation, search, the state of the connection,
// and keyboard shortcuts.
import { render } from 'preact'
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ApiError, get, session, write, type Start } from './api'
import { Icon } from './icons'
import { restart, useConnection } from './live'
import { Palette } from './palette'
import { pageOf, pages, type PageProps } from './pages'
import { go, href, place, setParams, usePlace } from './router'
import { active } from './table'
import { apply, onTheme, setTheme, theme } from './theme'
import { Dialog, Empty, ErrorBox, Loading, Page, Toasts, ago } from './ui'

apply()

function Nav({ open, close }: { open: boolean; close: () => void }) {
  const at = usePlace()
  const here = pageOf(at.path)
  let group = ''
  return <nav class={'nav' + (open ? ' open' : '')} aria-label="Pages" onClick={close}>
    {pages.filter((p) => p.name && (!p.need || session.may(p.need))).map((p) => {
      const title = p.group && p.group !== group ? <h2 key={p.group}>{p.group}</h2> : null
      group = p.group ?? group
      const current = here === p || (here && !here.name && p.path === here.path + 's') || (here?.path === '/alloc' && p.path === '/jobs') || (here?.path === '/eval' && p.path === '/evaluations')
      return [title, <a key={p.path} href={href(p.path)} aria-current={current ? 'page' : undefined}><Icon name={p.icon ?? ''} />{p.name}</a>]
    })}
  </nav>
}

function Connection() {
  const c = useConnection()
  const words = { idle: 'Connected', connecting: 'Connecting…', live: 'Live', lost: 'Connection lost', denied: 'No event stream' }
  const why = { idle: 'This page watches nothing.', connecting: '', live: 'Changes are shown as they happen.' + (c.gap ? ` A gap in the events ${ago(c.gap)} was closed by reading everything again.` : ''), lost: 'What is shown may be old. The page connects again by itself.', denied: 'Your token may not read events: reload a page to see changes.' }
  return <span class={'conn ' + (c.state === 'connecting' ? 'idle' : c.state)} role="status" title={why[c.state]}><i aria-hidden="true" /><span>{words[c.state]}</span></span>
}

function ThemeButton() {
  const [, tick] = useState(0)
  useEffect(() => onTheme(() => tick((n) => n + 1)), [])
  const next = { system: 'light', light: 'dark', dark: 'system' } as const
  return <button class="icon-btn" aria-label={`Theme: ${theme()}. Change to ${next[theme()]}`} title={`Theme: ${theme()}`} onClick={() => setTheme(next[theme()])}><Icon name="theme" /></button>
}

function Help({ onClose }: { onClose: () => void }) {
  return <Dialog title="Keyboard shortcuts" onClose={onClose}>
    <div class="keys"><kbd>Ctrl K</kbd><span>find anything</span><kbd>/</kbd><span>search in the list</span><kbd>j</kbd><span>next row</span><kbd>k</kbd><span>previous row</span><kbd>Enter</kbd><span>open the row</span><kbd>?</kbd><span>these shortcuts</span>
      {pages.filter((p) => p.key).map((p) => [<kbd key={p.key}>g {p.key}</kbd>, <span key={p.path}>{p.name}</span>])}</div>
  </Dialog>
}

// Body shows the page of the address.
const loaded = new Map<string, ComponentType<PageProps>>()
function Body() {
  const at = usePlace()
  const entry = pageOf(at.path)
  const [, tick] = useState(0)
  const [failed, setFailed] = useState<ApiError | null>(null)
  const Known = entry && loaded.get(entry.path)
  useEffect(() => {
    if (!entry || Known) return
    setFailed(null)
    entry.load().then((m) => { loaded.set(entry.path, m.default); tick((n) => n + 1) })
      .catch(() => setFailed(new ApiError(0, 'A part of the UI could not be loaded: the agent was updated, or does not answer. Load the page again.')))
  }, [entry])
  if (!entry) return <Page title="No such page"><Empty title={`There is no page ${at.path}`}><a href={href('/')}>Go to the overview</a></Empty></Page>
  if (failed) return <Page title={entry.name ?? 'Berth'}><ErrorBox error={failed} retry={() => location.reload()} /></Page>
  if (!Known) return <Loading />
  // With another token nothing of what the last one showed may stay.
  return <Known place={at} key={entry.path + ' ' + session.token} />
}

function Frame() {
  const [open, setOpen] = useState(false)
  const [dialog, setDialog] = useState<'' | 'palette' | 'help'>('')
  const [, tick] = useState(0)
  const at = usePlace()
  const connection = useConnection()
  useEffect(() => session.subscribe(() => tick((n) => n + 1)), [])
  useEffect(() => {
    let g = 0
    const down = (e: KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') { e.preventDefault(); setDialog((d) => (d === 'palette' ? '' : 'palette')); return }
      const el = e.target as HTMLElement
      if (e.ctrlKey || e.metaKey || e.altKey || el.closest('input,textarea,select,[contenteditable],.xterm,dialog')) {
        if (e.key === 'Escape' && el.matches('input[type=search]')) el.blur()
        return
      }
      if (g && Date.now() - g < 1500) {
        g = 0
        const p = pages.find((x) => x.key === e.key)
        if (p) { e.preventDefault(); go(p.path) }
        return
      }
      const keys: Record<string, () => void> = {
        g: () => { g = Date.now() }, '?': () => setDialog('help'), j: () => active.move?.(1), k: () => active.move?.(-1),
        '/': () => document.querySelector<HTMLInputElement>('#main input[type=search]')?.focus(),
      }
      if (e.key === 'Enter' && !el.closest('a,button,summary')) active.open?.()
      const f = keys[e.key]
      if (f) { e.preventDefault(); f() }
    }
    document.addEventListener('keydown', down)
    return () => document.removeEventListener('keydown', down)
  }, [])
  const s = session.start
  return <div class="frame">
    <header class="top">
      <button class="icon-btn menu" aria-label="Menu" aria-expanded={open} onClick={() => setOpen(!open)}><Icon name="menu" /></button>
      <a class="brand" href={href('/')} aria-label="Berth: overview"><img src={icon} alt="" /><span>Berth</span></a>
      {label.label && <span class="tag label" style={{ background: label.labelBackground || undefined, color: label.labelColor || undefined }}>{label.label}</span>}
      <button class="find" onClick={() => setDialog('palette')}><span>Find a job, node, allocation…</span><kbd>Ctrl K</kbd></button>
      <span class="grow" />
      <Connection />
      {s && <span class="dim small p2" title="Region">{session.region || s.Region}</span>}
      <ThemeButton />
      {s?.ACL && <a class="btn small" href={href('/settings')}>{s.SignedIn ? s.TokenName || 'Signed in' : 'Sign in'}</a>}
    </header>
    <Nav open={open} close={() => setOpen(false)} />
    <main class="main" id="main">
      {connection.state === 'lost' && connection.attempt > 1 && <div class="banner" role="alert">The connection to the agent is lost. What you see may be old; it is tried again by itself.</div>}
      {s?.ACL && !s.SignedIn && at.path !== '/settings' && <div class="banner">Access control is on and you are not signed in{session.ended ? ': the token is not valid any more' : ''}. <a class="btn small" href={href('/settings')}>Sign in</a></div>}
      <Body />
    </main>
    {dialog === 'palette' && <Palette key={session.token} onClose={() => setDialog('')} />}
    {dialog === 'help' && <Help onClose={() => setDialog('')} />}
    <Toasts />
  </div>
}

const label = document.documentElement.dataset // of the agent's configuration
const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')!.href

let known: string | undefined // the token that session.start is about

// readStart asks who answers and what the token allows. Another tab may lend its
// token meanwhile, or the token may have ended: then it asks again. If the agent
// does not answer, it asks later. The agent's own region knows each of its tokens.
async function readStart() {
  while (known !== session.token) {
    const token = session.token
    try { session.start = (await get<Start>('/v1/ui/start', { region: null }, undefined, token)).data } catch { setTimeout(readLater, 2000); return }
    known = token
    if (session.start.ACL && token === session.token && token && !session.start.SignedIn) { session.token = ''; session.ended = true }
  }
}
async function readLater() {
  await readStart()
  if (known === session.token) session.changed()
}

async function begin() {
  // berth ui opens the page with a one-time token: it is exchanged at once and
  // leaves the address.
  const ott = new URLSearchParams(location.hash.slice(1)).get('ott') ?? place().query.get('ott')
  if (ott) {
    history.replaceState(null, '', location.pathname + location.search)
    setParams({ ott: '' })
    try { session.token = (await write<{ Token: { SecretID: string } }>('PUT', '/v1/acl/token/onetime/exchange', { OneTimeSecretID: ott })).Token.SecretID } catch (e) { sessionStorage.setItem('notice', (e as Error).message) }
  } else await session.ask()
  await readStart()
  let token = session.token
  session.subscribe(async () => {
    if (session.token === token) return
    token = session.token
    await readStart()
    restart()
    session.changed()
  })
  // A token that is refused may have expired, or have been deleted.
  let doubt: ReturnType<typeof setTimeout> | undefined
  session.denied = () => {
    if (session.token) doubt ??= setTimeout(() => { doubt = known = undefined; readLater() }, 500)
  }
  render(<Frame />, document.getElementById('app')!)
}
begin()
