// The address of the page is the state of the view: a link that is copied shows
// the same to somebody else.
import { useEffect, useState } from 'preact/hooks'

const base = '/ui'
type Listener = () => void
const listeners = new Set<Listener>()
const changed = () => { here = place(); for (const l of [...listeners]) l() }
window.addEventListener('popstate', changed)

export interface Place { path: string; parts: string[]; query: URLSearchParams }

let here = place() // the same object until the address changes

export function place(): Place {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) || '/' : '/'
  return { path, parts: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(location.search) }
}
function decode(s: string) { try { return decodeURIComponent(s) } catch { return s } }

export function go(path: string, replace = false) {
  const to = base + path
  if (to === location.pathname + location.search) return
  history[replace ? 'replaceState' : 'pushState'](null, '', to)
  if (!replace) document.getElementById('main')?.scrollTo(0, 0)
  changed()
}

export function href(path: string) { return base + path }

export function usePlace(): Place {
  const [p, set] = useState(here)
  useEffect(() => {
    const l = () => set(here)
    listeners.add(l)
    l() // effects run after the page is painted: somebody may have pressed a link before
    return () => { listeners.delete(l) }
  }, [])
  return p
}

// useParam binds a value to a parameter of the address. An empty value is not
// written.
export function useParam(name: string, initial = ''): [string, (v: string) => void] {
  const p = usePlace()
  const v = p.query.get(name) ?? initial
  return [v, (next: string) => setParams({ [name]: next === initial ? '' : next })]
}

export function setParams(values: Record<string, string>) {
  const p = place()
  for (const [k, v] of Object.entries(values)) if (v) p.query.set(k, v); else p.query.delete(k)
  const q = p.query.toString()
  go(p.path + (q ? '?' + q : ''), true)
}

// follow makes links of the UI work without loading a page.
document.addEventListener('click', (e) => {
  if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
  const a = (e.target as Element).closest?.('a')
  if (!a || a.target || a.hasAttribute('download') || a.origin !== location.origin || !a.pathname.startsWith(base + '/')) return
  e.preventDefault()
  go(a.pathname.slice(base.length) + a.search)
})

// Links to objects.
const q = encodeURIComponent
const inNS = (ns?: string) => (ns && ns !== 'default' ? '?ns=' + q(ns) : '')
export const to = {
  job: (ns: string | undefined, id: string, tab = '') => `/job/${q(id)}${tab ? '/' + tab : ''}${inNS(ns)}`,
  alloc: (id: string, tab = '', task = '') => `/alloc/${q(id)}${tab ? '/' + tab : ''}${task ? '?task=' + q(task) : ''}`,
  node: (id: string, tab = '') => `/node/${q(id)}${tab ? '/' + tab : ''}`,
  eval: (id: string) => `/eval/${q(id)}`,
  deployment: (id: string) => `/deployment/${q(id)}`,
  service: (ns: string | undefined, name: string) => `/service/${q(name)}${inNS(ns)}`,
  variable: (ns: string | undefined, path: string) => `/variable/${q(path)}${inNS(ns)}`,
}
