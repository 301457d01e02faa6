// A terminal in a task. xterm.js makes its style sheets as elements, which the
// page's policy forbids, so they become sheets of the document instead.
import { useEffect, useRef, useState } from 'preact/hooks'
import { enc, session, socketURL } from '../api'
import { extraStyles } from '../extra'
import { useParam } from '../router'
import { color } from '../theme'
import { Empty } from '../ui'

// sheets runs f while style elements become sheets.
function withSheets<T>(doc: Document, f: () => T): T {
  const make = doc.createElement.bind(doc)
  ;(doc as any).createElement = (name: string, options?: any) => {
    if (name.toLowerCase() === 'style') {
      const el = make('template') // even an empty style element is refused
      const sheet = new CSSStyleSheet()
      doc.adoptedStyleSheets = [...doc.adoptedStyleSheets, sheet]
      Object.defineProperty(el, 'textContent', { get: () => '', set: (v: string) => sheet.replaceSync(v || '') })
      el.remove = () => { doc.adoptedStyleSheets = doc.adoptedStyleSheets.filter((s) => s !== sheet) }
      return el
    }
    return make(name, options)
  }
  try { return f() } finally { delete (doc as any).createElement }
}

// xterm.js also writes style attributes, which the policy forbids for text and
// allows for objects.
const setAttribute = Element.prototype.setAttribute
Element.prototype.setAttribute = function (name: string, value: string) {
  if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value
  else setAttribute.call(this, name, value)
}

const b64 = (b: Uint8Array) => { let s = ''; for (const c of b) s += String.fromCharCode(c); return btoa(s) }

export function Terminal({ id, ns, task, running }: { id: string; ns: string; task: string; running: boolean }) {
  const [command, setCommand] = useParam('command', '/bin/sh')
  const [typed, setTyped] = useState(command)
  const [open, setOpen] = useState(0)
  const [note, setNote] = useState('')
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (!open || !box.current) return
    let over = false
    let stop = () => undefined as void
    const begin = async () => {
      const [{ Terminal: Term }, { FitAddon }] = await Promise.all([import('@xterm/xterm'), import('@xterm/addon-fit'), extraStyles()])
      if (over) return
      const term = new Term({ cursorBlink: false, fontSize: 13, fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), scrollback: 5000, theme: { background: color('code'), foreground: color('text'), cursor: color('accent'), selectionBackground: color('fill2') }, screenReaderMode: true })
      const fit = new FitAddon()
      term.loadAddon(fit)
      withSheets(document, () => term.open(box.current!))
      fit.fit()
      term.focus()
      const words = typed.trim().split(/\s+/)
      const ws = new WebSocket(socketURL(`/v1/client/allocation/${enc(id)}/exec`, { task, command: JSON.stringify(words), tty: true, namespace: ns }), ['berth', ...(session.token ? ['berth.token.' + b64(new TextEncoder().encode(session.token)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')] : [])])
      const send = (o: unknown) => { if (ws.readyState === 1) ws.send(JSON.stringify(o)) }
      const size = () => { fit.fit(); send({ tty_size: { height: term.rows, width: term.cols } }) }
      const watch = new ResizeObserver(size)
      const beat = setInterval(() => send({}), 10_000)
      ws.onopen = () => { size(); setNote('Connected') }
      const text = new TextEncoder()
      term.onData((d) => send({ stdin: { data: b64(text.encode(d)) } }))
      ws.onmessage = (e) => {
        const o = JSON.parse(e.data)
        for (const p of [o.stdout, o.stderr]) if (p?.data) term.write(Uint8Array.from(atob(p.data), (c) => c.charCodeAt(0)))
        if (o.exited) { setNote(`The command ended with exit code ${o.result?.exit_code ?? 0}.`); ws.close() }
      }
      ws.onclose = (e) => { setNote((n) => (n.startsWith('The command') ? n : e.reason ? 'Closed: ' + e.reason : 'The connection is closed.')); term.options.disableStdin = true }
      watch.observe(box.current!)
      stop = () => { clearInterval(beat); watch.disconnect(); ws.close(); term.dispose() }
    }
    setNote('Connecting…')
    begin()
    return () => { over = true; stop() }
  }, [open])
  if (!session.may('alloc-exec', ns)) return <Empty title="Your token may not run commands">It lacks alloc-exec in namespace {ns}.</Empty>
  if (!running && !open) return <Empty title={`Task ${task} does not run`}>Commands can be run beside tasks that run.</Empty>
  return <div class="stack8">
    <form class="tools" onSubmit={(e) => { e.preventDefault(); setCommand(typed); setOpen(open + 1) }}>
      <label class="row small">Command <input type="text" class="mono" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} /></label>
      <button class="btn main-action">{open ? 'Run again' : 'Open the terminal'}</button><span class="dim small" role="status">{note}</span>
    </form>
    {open > 0 && <div class="terminal" ref={box} key={open} />}
  </div>
}
