// All pages: what stands in the navigation, and what loads them. A page is a
// module with a default export, loaded when it is first opened.
import type { ComponentType } from 'preact'
import type { Place } from './router'

export interface PageProps { place: Place }
export interface PageEntry {
  path: string // its first segment
  name?: string // in the navigation; none: it is reached by links
  icon?: string
  key?: string // g and this key lead to it
  group?: string
  need?: string // a right without which it is of no use
  load: () => Promise<{ default: ComponentType<PageProps> }>
}

export const pages: PageEntry[] = [
  { path: '/', name: 'Overview', icon: 'overview', key: 'o', load: () => import('./pages/overview') },
  { path: '/jobs', name: 'Jobs', icon: 'jobs', key: 'j', need: 'list-jobs', load: () => import('./pages/jobs') },
  { path: '/job', load: () => import('./pages/job') },
]

export function pageOf(path: string): PageEntry | undefined {
  const first = '/' + (path.split('/')[1] ?? '')
  return pages.find((p) => p.path === first)
}
