// One variable: its items, hidden until asked for, and editing that notices if
// somebody else has changed it.
import { useEffect, useState } from 'preact/hooks'
import { ApiError, enc, session, write } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { go } from '../router'
import { Copy, ErrorBox, KV, Loading, Page, Panel, Status, Time, useTask } from '../ui'
import { Confirm } from './job'
interface Variable { Namespace: string; Path: string; Items: Record<string, string> | null; ModifyIndex: number; ModifyTime: number; CreateTime: number; Lock?: { ID: string; TTL: string; LockDelay: string } | null }
export default function VariablePage({ place }: PageProps) {
  const path = place.parts[1] ?? '', ns = place.query.get('ns') ?? 'default'
  const at = '/v1/var/' + path.split('/').map(enc).join('/')
  const q = useQuery<Variable>(at, { namespace: ns }, [])
  const fresh = q.error?.missing ?? false
  const [items, setItems] = useState<[string, string][] | null>(null)
  const [shown, setShown] = useState(false)
  const [gone, setGone] = useState(false)
  const task = useTask()
  useEffect(() => { if (q.data) setItems(null); else if (fresh) { setItems([['', '']]); setShown(true) } }, [q.data, fresh])
  const v = q.data
  if (!v && !fresh) return <Page title={path} crumbs={[['Variables', '/variables']]}>{q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading />}</Page>
  const rows = items ?? Object.entries(v?.Items ?? {})
  const may = session.may('variables:write', ns) || session.may('submit-job', ns) || session.may('list-jobs', ns)
  const save = () => task.run(async () => {
    const clean = rows.filter(([k]) => k.trim())
    if (!clean.length) throw new ApiError(400, 'A variable needs at least one item with a key.')
    try { await write('PUT', at, { Namespace: ns, Path: path, Items: Object.fromEntries(clean) }, { namespace: ns, cas: v?.ModifyIndex ?? 0 }) } catch (e) {
      if ((e as ApiError).status === 409) throw new ApiError(409, 'Somebody else has changed this variable since you opened it. Copy what you wrote, and read it again.')
      throw e
    }
    setItems(null)
    q.refresh()
  }, 'Saved')
  return <Page title={path} crumbs={[['Variables', '/variables?namespace=' + enc(ns)]]} answer={fresh ? 'There is no such variable yet.' : undefined} command={'berth var get ' + path} status={v?.Lock ? <Status state="paused" text={`locked, ${v.Lock.TTL}`} pill /> : undefined}
    actions={<div class="row">{!items && may && <button class="btn" onClick={() => { setItems(rows.map((r) => [...r])); setShown(true) }}>Edit</button>}{items && !fresh && <button class="btn" onClick={() => setItems(null)}>Cancel</button>}{items && <button class="btn main-action" disabled={task.busy} onClick={save}>Save</button>}{v && !items && <button class="btn bad" onClick={() => setGone(true)}>Delete…</button>}</div>}>
    <ErrorBox error={task.error} retry={task.error?.status === 409 ? () => { task.setError(null); q.refresh() } : undefined} />
    {v?.Lock && <div class="note warn">Somebody holds the lock {v.Lock.ID}: a change without it is refused.</div>}
    <Panel title="Items" actions={!items ? <button class="btn small" onClick={() => setShown(!shown)}>{shown ? 'Hide values' : 'Show values'}</button> : undefined}>
      {!items ? <KV of={rows.map(([k, x]) => [k, <>{shown ? <span class="mono" style={{ whiteSpace: 'pre-wrap' }}>{x}</span> : '••••••••'} <Copy text={x} label={`Copy the value of ${k}`} /></>])} /> :
        <div class="stack8">{rows.map(([k, x], i) => <div class="row" key={i}><input type="text" aria-label="Key" placeholder="key" value={k} onInput={(e) => setItems(rows.map((r, n) => (n === i ? [e.currentTarget.value, r[1]] : r)))} /><textarea class="mono grow" rows={x.includes('\n') ? 5 : 1} aria-label="Value" value={x} onInput={(e) => setItems(rows.map((r, n) => (n === i ? [r[0], e.currentTarget.value] : r)))} /><button class="btn small" aria-label={`Remove ${k}`} onClick={() => setItems(rows.filter((_, n) => n !== i))}>Remove</button></div>)}<div><button class="btn small" onClick={() => setItems([...rows, ['', '']])}>Add an item</button></div></div>}
    </Panel>
    {v && <Panel title="Details"><KV of={[['Namespace', v.Namespace], ['Created', <Time at={v.CreateTime} />], ['Changed', <Time at={v.ModifyTime} />], ['Index', v.ModifyIndex]]} /></Panel>}
    {gone && v && <Confirm title={`Delete ${path}`} tone="bad" confirm="Delete" done="Deleted" onClose={() => setGone(false)} run={async () => { await write('DELETE', at, undefined, { namespace: ns, cas: v.ModifyIndex }); go('/variables') }} text="Tasks that read it find nothing from then on. This cannot be undone." />}
  </Page>
}
