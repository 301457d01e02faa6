// Calls of the HTTP API. The token is kept in memory only: a page that is loaded
// again asks the other tabs of this agent for it, and signs in otherwise.

export class ApiError extends Error {
  constructor(readonly status: number, message: string, readonly kind = '', readonly code = '') { super(message) }
  get denied() { return this.status === 403 || this.status === 401 }
  get missing() { return this.status === 404 }
}

export type Params = Record<string, string | number | boolean | undefined | null>
export interface Answer<T> { data: T; index: number; next: string }

// What the server says of the token: see op.UIStart.
export interface Start {
  Index: number; Region: string; Version: string; Server: string; Name: string
  ACL: boolean; SignedIn: boolean; TokenName: string; TokenType: string; TokenExpires: string | null
  Namespaces: string[]; Rights: Record<string, string[]>
}

type Listener = () => void
class Session {
  token = ''
  region = ''
  start: Start | null = null
  ended = false // the last token was not valid any more
  denied: (() => void) | null = null // is told of each request that is refused
  private listeners = new Set<Listener>()
  private channel = 'BroadcastChannel' in window ? new BroadcastChannel('berth') : null

  constructor() {
    if (!this.channel) return
    this.channel.onmessage = (e) => {
      if (e.data?.ask && this.token) this.channel!.postMessage({ token: this.token })
      if (typeof e.data?.token === 'string' && !this.token) this.signIn(e.data.token)
      if (e.data?.out) { this.token = ''; this.changed() }
    }
  }
  // ask waits a moment for another tab to lend its token.
  ask() {
    return new Promise<void>((done) => {
      if (!this.channel || this.token) return done()
      const off = this.subscribe(() => { off(); done() })
      this.channel.postMessage({ ask: true })
      setTimeout(() => { off(); done() }, 60)
    })
  }
  signIn(token: string) { this.token = token; this.ended = false; this.changed() }
  signOut() { this.token = ''; this.channel?.postMessage({ out: true }); this.changed() }
  changed() { for (const l of [...this.listeners]) l() }
  subscribe(l: Listener) { this.listeners.add(l); return () => { this.listeners.delete(l) } }
  // may reports whether the token has a right in a namespace, as far as is
  // known; "*" asks for any namespace. Servers check again.
  may(need: string, ns = '*'): boolean {
    const s = this.start
    if (!s || !s.ACL) return true
    const has = (list?: string[]) => !!list && (list.includes(need) || list.includes('management'))
    if (has(s.Rights[''])) return true
    return ns === '*' ? Object.values(s.Rights).some(has) : has(s.Rights[ns])
  }
}
export const session = new Session()

export function url(path: string, params: Params = {}) {
  const q = new URLSearchParams()
  if (session.region && params.region === undefined) q.set('region', session.region)
  for (const [k, v] of Object.entries(params)) if (v !== undefined && v !== null && v !== '') q.set(k, String(v))
  const s = q.toString()
  return s ? path + '?' + s : path
}

export function headers(token = session.token): Record<string, string> {
  return token ? { 'X-Nomad-Token': token } : {}
}

async function check(r: Response): Promise<Response> {
  if (r.ok) return r
  const text = (await r.text()).trim() || r.statusText
  const e = new ApiError(r.status, text, r.headers.get('X-Berth-Kind') ?? '', r.headers.get('X-Berth-Code') ?? '')
  if (e.denied) session.denied?.()
  throw e
}

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await check(await fetch(path, { ...init, credentials: 'omit', cache: 'no-store' }))
  } catch (e) {
    if (e instanceof ApiError || (e as Error).name === 'AbortError') throw e
    throw new ApiError(0, 'This agent does not answer. Is it running, and can you reach it?', 'unreachable')
  }
}

export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal, token = session.token): Promise<Answer<T>> {
  const r = await send(url(path, params), { headers: headers(token), signal })
  return { data: await r.json(), index: Number(r.headers.get('X-Nomad-Index') ?? 0), next: r.headers.get('X-Nomad-NextToken') ?? '' }
}

export async function text(path: string, params: Params = {}, signal?: AbortSignal): Promise<string> {
  return (await send(url(path, params), { headers: headers(), signal })).text()
}

export async function stream(path: string, params: Params, signal: AbortSignal): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const r = await send(url(path, params), { headers: headers(), signal })
  return r.body!.getReader()
}

export async function write<T>(method: 'PUT' | 'DELETE' | 'POST', path: string, body?: unknown, params: Params = {}): Promise<T> {
  const r = await send(url(path, params), {
    method, headers: { ...headers(), 'Content-Type': 'application/json' }, body: body === undefined ? undefined : JSON.stringify(body),
  })
  const t = await r.text()
  return (t ? JSON.parse(t) : null) as T
}

// lines yields the JSON objects of a stream, one for each that is complete.
export async function* objects(reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<any> {
  const decode = new TextDecoder()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    rest += decode.decode(value, { stream: true })
    let from = 0
    let at: number
    while ((at = rest.indexOf('\n', from)) >= 0) {
      const line = rest.slice(from, at).trim()
      from = at + 1
      if (line) yield JSON.parse(line)
    }
    rest = rest.slice(from)
    // Log frames come without a line break between them.
    const t = rest.trim()
    if (t.startsWith('{') && t.endsWith('}')) {
      let all: any[] | null = null
      try { all = [JSON.parse(t)] } catch { try { all = JSON.parse('[' + t.replaceAll('}{', '},{') + ']') } catch { /* not complete yet */ } }
      if (all) { rest = ''; yield* all }
    }
  }
}

// quoted writes a text for a filter expression.
export function quoted(s: string) { return JSON.stringify(s).replace(/\\u([0-9a-f]{4})/g, (_, h) => String.fromCharCode(parseInt(h, 16))) }
export const enc = encodeURIComponent

// socketURL is the address of a websocket of this agent.
export function socketURL(path: string, params: Params) {
  return (location.protocol === 'https:' ? 'wss://' : 'ws://') + location.host + url(path, params)
}
