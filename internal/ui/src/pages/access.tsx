// Access control: tokens, roles, policies, auth methods, and what a token may do.
import { useState } from 'preact/hooks'
import { enc, get, session, write } from '../api'
import { highlight } from '../highlight'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { Action, Cmd, Copy, Empty, ErrorBox, ID, Loading, Page, Panel, Status, Table1, Tabs, Time, useTask } from '../ui'
import { Confirm } from './job'
interface Token { AccessorID: string; SecretID: string; Name: string; Type: string; Policies: string[] | null; Roles: { ID: string; Name: string }[] | null; CreateTime: string; ExpirationTime?: string }
interface Policy { Name: string; Description: string; Rules?: string }
export default function Access({ place }: PageProps) {
  const tab = place.parts[1] ?? 'mine'
  const tabs = [['mine', 'What you may do'], ['tokens', 'Tokens'], ['roles', 'Roles'], ['policies', 'Policies'], ['methods', 'Auth methods']].map(([id, name]) => ({ id, name, to: '/access' + (id === 'mine' ? '' : '/' + id) }))
  const s = session.start
  if (s && !s.ACL) return <Page title="Access"><Panel><Empty title="Access control is off">Everybody who reaches this agent may do everything. To turn it on, write this into the configuration of all agents: <div style={{ marginTop: '8px' }}><Cmd text="acl { enabled = true }" /></div></Empty></Panel></Page>
  return <Page title="Access" command={tab === 'tokens' ? 'berth acl token list' : tab === 'policies' ? 'berth acl policy list' : 'berth acl token self'}>
    <Tabs tabs={tabs} at={tab} />
    {tab === 'mine' && <Mine />}{tab === 'tokens' && <Tokens />}{tab === 'roles' && <Roles />}{tab === 'policies' && <Policies />}{tab === 'methods' && <Methods />}
  </Page>
}
function Mine() {
  const [need, setNeed] = useState('submit-job')
  const [ns, setNS] = useState('default')
  const [can, setCan] = useState<boolean | null>(null)
  const task = useTask()
  const rights = Object.entries(session.start?.Rights ?? {}).filter(([, l]) => l.length)
  return <div class="stack">
    <Panel title="Ask"><form class="row" onSubmit={(e) => { e.preventDefault(); task.run(async () => { const r = (await get<any>('/v1/acl/can-i', { capability: need, namespace: ns })).data; setCan(!!(r.Allowed ?? r.Can ?? r.Yes ?? Object.values(r).find((x) => typeof x === 'boolean'))) }) }}>
      <label class="field">May I<input type="text" value={need} onInput={(e) => { setNeed(e.currentTarget.value); setCan(null) }} /></label><label class="field">in namespace<input type="text" value={ns} onInput={(e) => { setNS(e.currentTarget.value); setCan(null) }} /></label><button class="btn" style={{ alignSelf: 'end' }}>Ask</button>{can !== null && <Status state={can ? 'ready' : 'failed'} text={can ? 'yes' : 'no'} pill />}</form><ErrorBox error={task.error} /></Panel>
    {rights.length === 0 ? <Empty title="This token grants nothing" /> : rights.map(([n, l]) => <Panel key={n} title={n ? `In namespace ${n}` : 'In no namespace'}><div class="row">{l.map((c) => <span class="tag" key={c}>{c}</span>)}</div></Panel>)}
  </div>
}
function Tokens() {
  const q = useQuery<Token[]>('/v1/acl/tokens', {}, [])
  const [open, setOpen] = useState<Token | 'new' | null>(null)
  const [made, setMade] = useState<Token | null>(null)
  const [form, setForm] = useState({ name: '', type: 'client', policies: '', ttl: '' })
  if (!q.data) return q.error ? <ErrorBox error={q.error} /> : <Loading />
  return <><div class="row"><Action need="management" onClick={() => { setMade(null); setOpen('new') }}>Create a token…</Action></div>
    {made && <div class="note"><b>The secret of {made.Name || 'the new token'} is shown this once:</b> <span class="mono">{made.SecretID}</span><Copy text={made.SecretID} label="Copy the secret" /></div>}
    <Panel flush><Table1 label="Tokens" head={['Name', 'Accessor', 'Type', 'Policies and roles', 'Created', 'Expires', '']} rows={q.data.map((t) => [t.Name || '–', <ID id={t.AccessorID} />, t.Type, [...(t.Policies ?? []), ...(t.Roles ?? []).map((r) => r.Name)].map((p) => <span class="tag" key={p} style={{ marginRight: '4px' }}>{p}</span>), <Time at={t.CreateTime} />, t.ExpirationTime ? <Time at={t.ExpirationTime} /> : 'never', <button class="btn small bad" onClick={() => setOpen(t)}>Delete…</button>])} /></Panel>
    {open === 'new' && <Confirm title="Create a token" confirm="Create" done="Created" onClose={() => setOpen(null)} run={async () => { setMade(await write<Token>('PUT', '/v1/acl/token', { Name: form.name, Type: form.type, Policies: form.policies.split(/[\s,]+/).filter(Boolean), ExpirationTTL: form.ttl || undefined })); q.refresh() }}>
      <label class="field">Name<input type="text" value={form.name} onInput={(e) => setForm({ ...form, name: e.currentTarget.value })} /></label><label class="field">Type<select value={form.type} onChange={(e) => setForm({ ...form, type: e.currentTarget.value })}><option>client</option><option>management</option></select></label>{form.type === 'client' && <label class="field">Policies<input type="text" placeholder="team-a, read-all" value={form.policies} onInput={(e) => setForm({ ...form, policies: e.currentTarget.value })} /></label>}<label class="field">Expires after (optional)<input type="text" placeholder="8h" value={form.ttl} onInput={(e) => setForm({ ...form, ttl: e.currentTarget.value })} /></label></Confirm>}
    {open && open !== 'new' && <Confirm title={`Delete the token ${open.Name || open.AccessorID.slice(0, 8)}`} tone="bad" confirm="Delete" done="Deleted" onClose={() => setOpen(null)} run={async () => { await write('DELETE', '/v1/acl/token/' + open.AccessorID); q.refresh() }} text="Whoever uses it is refused from now on. This cannot be undone." />}
  </>
}
function Roles() {
  const q = useQuery<{ ID: string; Name: string; Description: string; Policies: { Name: string }[] | null }[]>('/v1/acl/roles', {}, [])
  if (!q.data) return q.error ? <ErrorBox error={q.error} /> : <Loading />
  return <Panel flush>{q.data.length === 0 ? <Empty title="No role" command="berth acl role create -name engineering -policy team-a" /> : <Table1 label="Roles" head={['Role', 'Policies', 'Description']} rows={q.data.map((r) => [<b>{r.Name}</b>, (r.Policies ?? []).map((p) => p.Name).join(', '), r.Description])} />}</Panel>
}
function Policies() {
  const q = useQuery<Policy[]>('/v1/acl/policies', {}, [])
  const [at, setAt] = useState('')
  const one = useQuery<Policy>(at ? '/v1/acl/policy/' + enc(at) : null, {}, [])
  if (!q.data) return q.error ? <ErrorBox error={q.error} /> : <Loading />
  return <><Panel flush>{q.data.length === 0 ? <Empty title="No policy" command="berth acl policy apply team-a team-a.policy.hcl" /> : <Table1 label="Policies" head={['Policy', 'Description']} rows={q.data.map((p) => [<button class="link" onClick={() => setAt(p.Name)}>{p.Name}</button>, p.Description])} />}</Panel>
    {at && <Panel title={at}>{one.data ? <pre class="codebox" tabIndex={0}>{highlight(one.data.Rules ?? '')}</pre> : <ErrorBox error={one.error} />}</Panel>}</>
}
function Methods() {
  const q = useQuery<{ Name: string; Type: string; Default: boolean }[]>('/v1/acl/auth-methods', {}, [])
  const r = useQuery<{ ID: string; AuthMethod: string; Description: string }[]>(session.may('management') ? '/v1/acl/binding-rules' : null, {}, [])
  return <div class="stack"><ErrorBox error={q.error} /><Panel title="Auth methods" flush><Table1 label="Auth methods" head={['Method', 'Type', '']} rows={(q.data ?? []).map((m) => [<b>{m.Name}</b>, m.Type, m.Default ? 'default' : ''])} /></Panel>{r.data && <Panel title="Binding rules" flush><Table1 label="Binding rules" head={['Rule', 'Method', 'Description']} rows={r.data.map((x) => [<ID id={x.ID} />, x.AuthMethod, x.Description])} /></Panel>}</div>
}
