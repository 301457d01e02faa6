// Settings: signing in, the region, and how the page looks.
import { useEffect, useState } from 'preact/hooks'
import { get, session, write, type Start } from '../api'
import { restart, useQuery } from '../live'
import type { PageProps } from '../pages'
import { go } from '../router'
import { setTheme, theme, type Theme } from '../theme'
import { ErrorBox, KV, Page, Panel, Status, Time, useTask } from '../ui'

interface Method { Name: string; Type: string; Default: boolean }
const callback = () => location.origin + '/ui/settings/oidc'

export default function Settings({ place }: PageProps) {
  const s = session.start
  const [, tick] = useState(0)
  useEffect(() => session.subscribe(() => tick((n) => n + 1)), [])
  const regions = useQuery<string[]>('/v1/regions', { region: null }, [])
  return <Page title="Settings" answer={!s ? undefined : !s.ACL ? 'Access control is off: everybody who reaches this agent may do everything.' : s.SignedIn ? `You are signed in${s.TokenName ? ` as ${s.TokenName}` : ''}.` : 'You are not signed in.'}>
    {s?.ACL && (s.SignedIn && session.token ? <Panel title="Your token" actions={<button class="btn" onClick={() => session.signOut()}>Sign out of all tabs</button>}>
      <KV of={[['Name', s.TokenName], ['Type', s.TokenType], ['Expires', s.TokenExpires ? <Time at={s.TokenExpires} /> : 'never'], ['Namespaces', s.Namespaces.join(', ')]]} />
      <p class="small dim" style={{ marginTop: '8px' }}>The token is kept in the memory of this page only. If you load the page again, other open tabs lend it; else you sign in again.</p>
    </Panel> : <SignIn place={place} />)}
    <div class="cols">
      <Panel title="Theme"><div class="row" role="radiogroup" aria-label="Theme">{(['system', 'light', 'dark'] as Theme[]).map((t) => <label class="check" key={t}><input type="radio" name="theme" checked={theme() === t} onChange={() => { setTheme(t); tick((n) => n + 1) }} />{t === 'system' ? 'as the system' : t}</label>)}</div></Panel>
      <Panel title="Region"><select aria-label="Region" value={session.region || s?.Region} onChange={async (e) => { const v = e.currentTarget.value; session.region = v === s?.Region ? '' : v; restart(); session.changed() }}>{(regions.data ?? [s?.Region ?? 'global']).map((r) => <option key={r}>{r}</option>)}</select><p class="small dim" style={{ marginTop: '8px' }}>Requests for another region are passed on by this agent's servers.</p></Panel>
      <Panel title="About"><KV of={[['This agent', s ? `speaks the API of Nomad ${s.Version}` : ''], ['Region', s?.Region], ['Licences', <a href={document.querySelector<HTMLLinkElement>('link[rel=icon]')!.href.replace('icon.svg', 'LICENSES.txt')} target="_blank" rel="noopener">of the libraries in this UI</a>]]} /></Panel>
    </div>
  </Page>
}

function SignIn({ place }: PageProps) {
  const [token, setToken] = useState('')
  const [once, setOnce] = useState('')
  const task = useTask()
  const methods = useQuery<Method[]>('/v1/acl/auth-methods', {}, [])
  const oidc = (methods.data ?? []).filter((m) => m.Type === 'OIDC')
  const enter = async (secret: string) => {
    const start = (await get<Start>('/v1/ui/start', { region: null }, undefined, secret)).data
    if (!start.SignedIn || !start.TokenType) throw new Error('This token is not valid: it may have expired or been deleted.')
    session.signIn(secret)
    go('/')
  }
  const exchange = async () => enter((await write<{ Token: { SecretID: string } }>('PUT', '/v1/acl/token/onetime/exchange', { OneTimeSecretID: once.trim() })).Token.SecretID)
  const begin = async (m: string) => {
    const nonce = Array.from(crypto.getRandomValues(new Uint8Array(20)), (b) => b.toString(16).padStart(2, '0')).join('')
    const r = await write<{ AuthURL: string }>('PUT', '/v1/acl/oidc/auth-url', { AuthMethodName: m, RedirectURI: callback(), ClientNonce: nonce })
    if (!r.AuthURL) throw new Error(`The auth method ${m} does not allow ${callback()}: add it to AllowedRedirectURIs.`)
    if (!/^https?:\/\//.test(r.AuthURL)) throw new Error('The address of the provider is not one of the web.')
    sessionStorage.setItem('oidc', JSON.stringify({ m, nonce }))
    location.assign(r.AuthURL)
  }
  useEffect(() => {
    const notice = sessionStorage.getItem('notice')
    if (notice) { sessionStorage.removeItem('notice'); task.run(() => Promise.reject(new Error('The one-time token is not valid: ' + notice))) }
    const code = place.query.get('code'), state = place.query.get('state')
    if (place.parts[1] !== 'oidc') return
    const kept = JSON.parse(sessionStorage.getItem('oidc') ?? 'null')
    sessionStorage.removeItem('oidc')
    go('/settings', true)
    if (!code || !state || !kept) { task.run(() => Promise.reject(new Error(place.query.get('error_description') ?? place.query.get('error') ?? 'The login was not finished: begin again.'))); return }
    task.run(async () => enter((await write<{ SecretID: string }>('PUT', '/v1/acl/oidc/complete-auth', { AuthMethodName: kept.m, ClientNonce: kept.nonce, State: state, Code: code, Iss: place.query.get('iss') ?? undefined, RedirectURI: callback() })).SecretID), 'Signed in')
  }, [])
  return <Panel title="Sign in"><div class="stack8">
    <ErrorBox error={task.error} />
    {oidc.map((m) => <div key={m.Name}><button class="btn main-action" disabled={task.busy} onClick={() => task.run(() => begin(m.Name))}>Sign in with {m.Name}</button></div>)}
    <form class="row" onSubmit={(e) => { e.preventDefault(); if (token.trim()) task.run(() => enter(token.trim()), 'Signed in') }}>
      <label class="field" style={{ flex: '1 1 320px' }}>Secret ID of a token<input type="password" autocomplete="current-password" value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label>
      <button class="btn main-action" style={{ alignSelf: 'end' }} disabled={task.busy}>Sign in</button>
    </form>
    <form class="row" onSubmit={(e) => { e.preventDefault(); if (once.trim()) task.run(exchange, 'Signed in') }}>
      <label class="field" style={{ flex: '1 1 320px' }}>One-time token<input type="text" autocomplete="off" value={once} onInput={(e) => setOnce(e.currentTarget.value)} /></label>
      <button class="btn" style={{ alignSelf: 'end' }} disabled={task.busy}>Exchange</button>
    </form>
    <Status state="pending" text="The token stays in the memory of this page." />
  </div></Panel>
}
