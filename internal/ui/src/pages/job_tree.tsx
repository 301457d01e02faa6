// What a job owns, and what its owner's deletion waits for.
import { useState } from 'preact/hooks'
import { useQuery } from '../live'
import { href, to } from '../router'
import { Copy, Empty, ErrorBox, Loading, Panel, Status, Table1, plural } from '../ui'
import type { JobView } from './job'

interface Owner { Kind: string; Name: string; UID: string; Block: boolean }
interface Resource { Kind: string; Namespace: string; Name: string; ID: string; UID: string; OwnerRefs: Owner[] | null; Status: string; Phase: string; Orphaned: boolean; Deletion?: { Blocking: number } | null }
interface Row { r: Resource; depth: number; more?: number }

// Of many objects with one owner the first are shown, of all at most mostRows.
const firstShown = 20, mostRows = 500

export function Ownership({ v }: { v: JobView }) {
  const q = useQuery<Resource[]>('/v1/resources', { namespace: v.ns, job: v.id }, ['Job:' + v.id, 'Allocation:' + v.id, 'Resource:' + v.id])
  const [open, setOpen] = useState<string[]>([])
  if (!q.data) return q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="what the job owns" />
  const rows = rowsOf(q.data, open)
  const left = rows.length - mostRows
  return <Panel flush>
    {rows.length === 0 ? <Empty title="Nothing">The job owns nothing.</Empty> :
      <Table1 label="What the job owns" head={['Object', 'State', 'UID', 'Its deletion']} classes={['', '', 'p2', '']} rows={rows.slice(0, mostRows).map(({ r, depth, more }) => more ?
        [<span style={{ paddingLeft: depth * 20 + 'px' }}><button class="link" onClick={() => setOpen([...open, r.UID])}>{plural(more, 'more object', 'more objects')} of {r.Name}</button></span>, '', '', ''] :
        [<span class="wrap" style={{ paddingLeft: depth * 20 + 'px' }}><span class="dim">{r.Kind}</span> <Named r={r} /></span>, <Status state={r.Phase || r.Status || 'unknown'} />,
          <span class="row"><code class="small">{r.UID}</code><Copy text={r.UID} /></span>, deletionOf(r)])} />}
    {left > 0 && <p class="dim small" style={{ padding: '8px 12px' }}>{plural(left, 'more row', 'more rows')}: berth job tree -all {v.id}</p>}
  </Panel>
}

function Named({ r }: { r: Resource }) {
  if (r.Kind === 'Allocation') return <a href={href(to.alloc(r.ID))}>{r.Name}</a>
  return r.Kind === 'Job' ? <a href={href(to.job(r.Namespace, r.Name))}>{r.Name}</a> : <>{r.Name}</>
}

function deletionOf(r: Resource) {
  if (r.Deletion) return r.Deletion.Blocking ? 'waits for ' + plural(r.Deletion.Blocking, 'object') : 'under way'
  if (r.Orphaned) return 'its owner is gone: it runs on'
  const holds = (r.OwnerRefs ?? []).filter((o) => o.Block)
  return holds.length ? 'that of ' + holds.map((o) => o.Name).join(', ') + ' waits for it' : ''
}

// rowsOf puts each object below its owner. Those without an owner here come first.
function rowsOf(list: Resource[], open: string[]): Row[] {
  const known = new Set(list.map((r) => r.UID)), owned = new Map<string, Resource[]>(), rows: Row[] = [], seen = new Set<string>()
  for (const r of list) for (const o of r.OwnerRefs ?? []) owned.has(o.UID) ? owned.get(o.UID)!.push(r) : owned.set(o.UID, [r])
  const add = (r: Resource, depth: number) => {
    if (seen.has(r.UID)) return
    seen.add(r.UID)
    rows.push({ r, depth })
    const below = owned.get(r.UID) ?? [], shown = open.includes(r.UID) ? below : below.slice(0, firstShown)
    for (const b of shown) add(b, depth + 1)
    if (below.length > shown.length) rows.push({ r, depth: depth + 1, more: below.length - shown.length })
  }
  for (const r of list) if (!(r.OwnerRefs ?? []).some((o) => known.has(o.UID))) add(r, 0)
  return rows
}
