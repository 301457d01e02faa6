// Files of an allocation. Whatever a file holds, it is shown as text only.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, headers, session, text, url } from '../api'
import { Icon } from '../icons'
import { useQuery } from '../live'
import { useParam } from '../router'
import { Empty, ErrorBox, Loading, Panel, Time, bytes, toast } from '../ui'

interface Info { Name: string; IsDir: boolean; Size: number; FileMode: string; ModTime: string }
const most = 256 << 10

export function Files({ id, ns }: { id: string; ns: string }) {
  const [path, setPath] = useParam('path', '/')
  const [file, setFile] = useParam('file')
  const may = session.may('read-fs', ns)
  const q = useQuery<Info[]>(may ? '/v1/client/fs/ls/' + id : null, { path, namespace: ns }, [])
  if (!may) return <Empty title="Your token may not read files">It lacks read-fs in namespace {ns}.</Empty>
  const parts = path.split('/').filter(Boolean)
  const list = [...(q.data ?? [])].sort((a, b) => Number(b.IsDir) - Number(a.IsDir) || a.Name.localeCompare(b.Name))
  const join = (name: string) => (path === '/' ? '' : path) + '/' + name
  return <div class="stack">
    <Panel title={<nav class="row" aria-label="Folder"><button class="btn small" onClick={() => { setPath('/'); setFile('') }}>/</button>{parts.map((p, i) => <button class="btn small" key={i} onClick={() => { setPath('/' + parts.slice(0, i + 1).join('/')); setFile('') }}>{p}</button>)}</nav>} actions={<button class="btn small" onClick={q.refresh}>Read again</button>} flush>
      <ErrorBox error={q.error} />
      {q.loading ? <Loading /> : list.length === 0 ? <Empty title="The folder is empty" /> : <div class="scroll-x" tabIndex={0} role="region" aria-label="Files"><table><thead><tr><th scope="col">Name</th><th scope="col" class="num">Size</th><th scope="col" class="p2">Mode</th><th scope="col" class="p2">Changed</th></tr></thead>
        <tbody>{list.map((f) => <tr key={f.Name} aria-selected={file === join(f.Name) ? 'true' : undefined}><td><button class="link" onClick={() => (f.IsDir ? setPath(join(f.Name)) : setFile(join(f.Name)))}><Icon name={f.IsDir ? 'folder' : 'file'} /> <span class="wrap">{f.Name}</span></button></td><td class="num">{f.IsDir ? '' : bytes(f.Size)}</td><td class="p2 mono">{f.FileMode}</td><td class="p2"><Time at={f.ModTime} /></td></tr>)}</tbody></table></div>}
    </Panel>
    {file && <FileView id={id} ns={ns} path={file} size={list.find((f) => join(f.Name) === file)?.Size} />}
  </div>
}

function FileView({ id, ns, path, size }: { id: string; ns: string; path: string; size?: number }) {
  const [body, setBody] = useState<string | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [end, setEnd] = useState(false)
  useEffect(() => {
    const own = new AbortController()
    setBody(null)
    setError(null)
    const offset = end && size && size > most ? size - most : 0
    text('/v1/client/fs/readat/' + id, { path, offset, limit: most, namespace: ns }, own.signal).then(setBody).catch((e) => { if (!own.signal.aborted) setError(e) })
    return () => own.abort()
  }, [id, path, end])
  const download = async () => {
    try {
      const r = await fetch(url('/v1/client/fs/cat/' + id, { path, namespace: ns }), { headers: headers() })
      if (!r.ok) throw new Error(await r.text())
      const a = document.createElement('a')
      a.href = URL.createObjectURL(new Blob([await r.blob()], { type: 'application/octet-stream' }))
      a.download = path.split('/').pop()!
      a.click()
      URL.revokeObjectURL(a.href)
    } catch (e) { toast((e as Error).message, 'bad') }
  }
  const binary = body !== null && body.includes('\u0000')
  return <Panel title={<span class="mono wrap">{path}</span>} actions={<>{size !== undefined && size > most && <button class="btn small" onClick={() => setEnd(!end)}>{end ? 'Show the beginning' : 'Show the end'}</button>}<button class="btn small" onClick={download}>Download</button></>}>
    <ErrorBox error={error} />
    {body === null && !error ? <Loading /> : binary ? <Empty title="This file is not text">Download it to look into it.</Empty> : body === '' ? <Empty title="The file is empty" /> : body !== null && <pre class="codebox soft" tabIndex={0}>{body}</pre>}
    {size !== undefined && size > most && <p class="small dim">{bytes(most)} of {bytes(size)} are shown.</p>}
  </Panel>
}
