// Variables as a tree of paths.
import { useState } from 'preact/hooks'
import { session } from '../api'
import { Icon } from '../icons'
import { useQuery } from '../live'
import { go, href, to, useParam } from '../router'
import { Empty, ErrorBox, Loading, Page, Panel, Status, Time, plural } from '../ui'
import { Choice } from './jobs'
interface Stub { Namespace: string; Path: string; ModifyTime: number; Lock?: { ID: string } | null }
export default function Variables() {
  const [ns, setNS] = useParam('namespace', 'default')
  const [at, setAt] = useParam('path')
  const [name, setName] = useState('')
  const q = useQuery<Stub[]>('/v1/vars', { namespace: ns, prefix: at || undefined, per_page: 1000 }, [])
  const folders = new Map<string, number>(), files: Stub[] = []
  for (const v of q.data ?? []) {
    if (!v.Path.startsWith(at)) continue
    const rest = v.Path.slice(at.length), cut = rest.indexOf('/')
    if (cut >= 0) folders.set(rest.slice(0, cut), (folders.get(rest.slice(0, cut)) ?? 0) + 1); else files.push(v)
  }
  const parts = at.split('/').filter(Boolean)
  return <Page title="Variables" command={`berth var list${at ? ' ' + at : ''}`} actions={<form class="row" onSubmit={(e) => { e.preventDefault(); if (name.trim()) go(to.variable(ns, at + name.trim())) }}><input type="text" placeholder="new/path" aria-label="Path of a new variable" value={name} onInput={(e) => setName(e.currentTarget.value)} /><button class="btn main-action">Create</button></form>}>
    <div class="tools"><Choice label="Namespace" value={ns} set={(v) => { setNS(v) }} of={(session.start?.Namespaces ?? ['default']).map((n) => [n, n])} /><button class="btn small" onClick={q.refresh}>Read again</button></div>
    <ErrorBox error={q.error} retry={q.refresh} />
    {q.loading ? <Loading what="variables" /> : <Panel title={<nav class="row" aria-label="Path"><button class="btn small" onClick={() => setAt('')}>/</button>{parts.map((p, i) => <button class="btn small" key={i} onClick={() => setAt(parts.slice(0, i + 1).join('/') + '/')}>{p}</button>)}</nav>} flush>
      {folders.size + files.length === 0 ? <Empty title="No variable here" command="berth var put nomad/jobs/web password=…">Tasks of a job read those below nomad/jobs/ and its name.</Empty> :
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Variables"><table><thead><tr><th scope="col">Path</th><th scope="col">Lock</th><th scope="col" class="p2">Changed</th></tr></thead><tbody>
          {[...folders].sort().map(([f, n]) => <tr key={f + '/'}><td><button class="link" onClick={() => setAt(at + f + '/')}><Icon name="folder" />{f}/</button></td><td class="dim small">{plural(n, 'variable')}</td><td class="p2" /></tr>)}
          {files.map((v) => <tr key={v.Path}><td><a class="link" href={href(to.variable(v.Namespace, v.Path))}><Icon name="file" />{v.Path.slice(at.length)}</a></td><td>{v.Lock ? <Status state="paused" text="locked" /> : ''}</td><td class="p2"><Time at={v.ModifyTime} /></td></tr>)}
        </tbody></table></div>}
      {q.next && <p class="dim small" style={{ padding: '8px 12px' }}>The first 1,000 are shown: open a folder to see the rest.</p>}
    </Panel>}
  </Page>
}
