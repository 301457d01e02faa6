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
  { path: '/run', name: 'Run a job', icon: 'run', key: 'r', need: 'submit-job', load: () => import('./pages/run') },
  { path: '/deployments', name: 'Deployments', icon: 'deployments', key: 'd', need: 'read-job', load: () => import('./pages/deployments') },
  { path: '/evaluations', name: 'Evaluations', icon: 'evals', key: 'e', need: 'read-job', load: () => import('./pages/evaluations') },
  { path: '/services', name: 'Services', icon: 'services', key: 's', need: 'read-job', load: () => import('./pages/services') },
  { path: '/streams', name: 'Stream jobs', icon: 'streams', need: 'read-job', load: () => import('./pages/streams') },
  { path: '/variables', name: 'Variables', icon: 'variables', key: 'v', load: () => import('./pages/variables') },
  { path: '/volumes', name: 'Volumes', icon: 'volumes', need: 'host-volume-read', load: () => import('./pages/volumes') },
  { path: '/nodes', name: 'Nodes', icon: 'nodes', key: 'n', group: 'Cluster', need: 'node:read', load: () => import('./pages/nodes') },
  { path: '/topology', name: 'Topology', icon: 'topology', key: 't', group: 'Cluster', need: 'node:read', load: () => import('./pages/topology') },
  { path: '/servers', name: 'Servers', icon: 'servers', group: 'Cluster', need: 'operator:read', load: () => import('./pages/servers') },
  { path: '/access', name: 'Access', icon: 'access', key: 'a', group: 'Cluster', load: () => import('./pages/access') },
  { path: '/audit', name: 'Audit', icon: 'audit', group: 'Cluster', need: 'management', load: () => import('./pages/audit') },
  { path: '/settings', name: 'Settings', icon: 'settings', group: 'Cluster', load: () => import('./pages/settings') },
  { path: '/job', load: () => import('./pages/job') },
  { path: '/alloc', load: () => import('./pages/alloc') },
  { path: '/node', load: () => import('./pages/node') },
  { path: '/eval', load: () => import('./pages/eval') },
  { path: '/deployment', load: () => import('./pages/deployment') },
  { path: '/service', load: () => import('./pages/service') },
  { path: '/stream', load: () => import('./pages/stream') },
  { path: '/variable', load: () => import('./pages/variable') },
]

export function pageOf(path: string): PageEntry | undefined {
  const first = '/' + (path.split('/')[1] ?? '')
  return pages.find((p) => p.path === first)
}
