// The command palette: pages, actions, and everything that has a name.
import { useEffect, useRef, useState } from 'preact/hooks'
import { get, quoted, session, write } from './api'
import { go, to } from './router'
import { setTheme } from './theme'
import { pages } from './pages'

interface Item { key: string; text: string; kind: string; run: () => void }

let fuzzy = true // the server has search; older ones do not

interface Match { ID: string; Scope?: string[] }
const kinds: Record<string, [string, (id: string, scope: string[]) => string]> = {
  jobs: ['job', (id, s) => to.job(s[0], s[1] ?? id)], nodes: ['node', (id, s) => to.node(s[0] ?? id)], allocs: ['allocation', (id, s) => to.alloc(s[s.length - 1] ?? id)],
  evals: ['evaluation', (id) => to.eval(id)], deployment: ['deployment', (id) => to.deployment(id)], vars: ['variable', (id, s) => to.variable(s[0], s[1] ?? id)],
  groups: ['group', (_, s) => to.job(s[0], s[1])], tasks: ['task', (_, s) => to.job(s[0], s[1])], services: ['service', (id, s) => to.service(s[0], s[1] ?? id)],
}

async function search(text: string, signal: AbortSignal): Promise<Item[]> {
  if (fuzzy) try {
    const a = await write<{ Matches: Record<string, Match[] | null> }>('PUT', '/v1/search/fuzzy', { Text: text, Context: 'all' }, { namespace: '*' })
    return Object.entries(a.Matches ?? {}).flatMap(([context, list]) => (list ?? []).slice(0, 6).flatMap((m) => {
      const k = kinds[context]
      return k ? [{ key: context + m.ID + m.Scope?.join(), text: m.ID, kind: k[0] + (m.Scope && m.Scope.length > 1 && context !== 'nodes' ? ' in ' + m.Scope.slice(0, -1).join('/') : ''), run: () => go(k[1](m.ID, m.Scope ?? [])) }] : []
    }))
  } catch (e) {
    if ((e as any).status === 404 || (e as any).status === 405) fuzzy = false; else return []
  }
  const out: Item[] = []
  const list = async <T,>(path: string, params: Record<string, string>, make: (row: T) => Item) => {
    try { for (const r of (await get<T[]>(path, { per_page: 6, ...params }, signal)).data ?? []) out.push(make(r)) } catch { /* what cannot be read is not found */ }
  }
  const q = quoted(text)
  const id = /^[0-9a-f]{4,}[0-9a-f-]*$/i.test(text)
  await Promise.all([
    list<any>('/v1/jobs', { namespace: '*', filter: `ID contains ${q} or Name contains ${q}` }, (j) => ({ key: 'j' + j.Namespace + j.ID, text: j.ID, kind: 'job in ' + j.Namespace, run: () => go(to.job(j.Namespace, j.ID)) })),
    session.may('node:read') && list<any>('/v1/nodes', { filter: `Name contains ${q}` }, (n) => ({ key: 'n' + n.ID, text: n.Name, kind: 'node', run: () => go(to.node(n.ID)) })),
    id && list<any>('/v1/allocations', { namespace: '*', prefix: text }, (a) => ({ key: 'a' + a.ID, text: a.Name + ' ' + a.ID.slice(0, 8), kind: 'allocation', run: () => go(to.alloc(a.ID)) })),
    id && list<any>('/v1/evaluations', { namespace: '*', prefix: text }, (e) => ({ key: 'e' + e.ID, text: e.ID.slice(0, 8) + ' of ' + e.JobID, kind: 'evaluation', run: () => go(to.eval(e.ID)) })),
    id && session.may('node:read') && list<any>('/v1/nodes', { prefix: text }, (n) => ({ key: 'm' + n.ID, text: n.Name, kind: 'node', run: () => go(to.node(n.ID)) })),
  ])
  return out
}

const actions: [string, () => void][] = [
  ['Theme: light', () => setTheme('light')], ['Theme: dark', () => setTheme('dark')], ['Theme: as the system', () => setTheme('system')],
  ['Sign in or out', () => go('/settings')], ['Copy the address of this view', () => { navigator.clipboard?.writeText(location.href) }],
]

export function Palette({ onClose }: { onClose: () => void }) {
  const ref = useRef<HTMLDialogElement>(null)
  const [text, setText] = useState('')
  const [found, setFound] = useState<Item[]>([])
  const [at, setAt] = useState(0)
  useEffect(() => { const d = ref.current!; d.showModal(); return () => d.close() }, [])
  useEffect(() => {
    setAt(0)
    if (text.trim().length < 2) { setFound([]); return }
    const own = new AbortController()
    const t = setTimeout(() => search(text.trim(), own.signal).then((l) => { if (!own.signal.aborted) setFound(l) }), 90)
    return () => { own.abort(); clearTimeout(t) }
  }, [text])
  const low = text.trim().toLowerCase()
  const fixed: Item[] = [...pages.filter((p) => p.name).map((p) => ({ key: p.path, text: p.name!, kind: p.key ? 'page · g ' + p.key : 'page', run: () => go(p.path) })), ...actions.map(([name, run]) => ({ key: name, text: name, kind: 'action', run }))]
  const items = [...found, ...fixed.filter((i) => !low || i.text.toLowerCase().includes(low))].slice(0, 40)
  const run = (i: Item) => { onClose(); i.run() }
  return <dialog ref={ref} class="palette" aria-label="Find" onCancel={(e) => { e.preventDefault(); onClose() }} onClick={(e) => { if (e.target === ref.current) onClose() }}>
    <input type="text" autofocus role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant={items[at] ? 'found-' + at : undefined} aria-label="Find a job, node, allocation or page" placeholder="Find a job, node, allocation or page" value={text}
      onInput={(e) => setText(e.currentTarget.value)}
      onKeyDown={(e) => {
        if (e.key === 'ArrowDown') { e.preventDefault(); setAt((n) => Math.min(items.length - 1, n + 1)) }
        if (e.key === 'ArrowUp') { e.preventDefault(); setAt((n) => Math.max(0, n - 1)) }
        if (e.key === 'Enter' && items[at]) { e.preventDefault(); run(items[at]) }
      }} />
    <ul id="found" role="listbox" aria-label="Results">{items.map((i, n) => <li key={i.key} id={'found-' + n} role="option" aria-selected={n === at ? 'true' : 'false'} onPointerMove={() => setAt(n)} onClick={() => run(i)}><span>{i.text}</span><span class="dim">{i.kind}</span></li>)}
      {items.length === 0 && <li role="option" aria-selected="false" class="dim">Nothing found.</li>}</ul>
  </dialog>
}
