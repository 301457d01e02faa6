// Text with the colours of terminals. Nothing but colours, weight and underlines
// is taken from it; all else is shown as text.
import type { JSX } from 'preact'

// eslint-disable-next-line no-control-regex
const escape = /\x1b\[([0-9;:]*)m|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g

export function plain(s: string) { return s.replace(escape, '').replace(/\r(?!\n)/g, '\n') }

interface Style { fg: string; bg: string; bold: boolean; dim: boolean; under: boolean; italic: boolean; rgb: string; rgbBack: string }
const none: Style = { fg: '', bg: '', bold: false, dim: false, under: false, italic: false, rgb: '', rgbBack: '' }

function apply(s: Style, codes: number[]): Style {
  s = { ...s }
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i]
    if (c === 0) s = { ...none }
    else if (c === 1) s.bold = true
    else if (c === 2) s.dim = true
    else if (c === 3) s.italic = true
    else if (c === 4) s.under = true
    else if (c === 22) s.bold = s.dim = false
    else if (c === 23) s.italic = false
    else if (c === 24) s.under = false
    else if (c >= 30 && c <= 37) { s.fg = 'a' + (c - 30); s.rgb = '' } else if (c >= 90 && c <= 97) { s.fg = 'a' + (c - 82); s.rgb = '' }
    else if (c >= 40 && c <= 47) { s.bg = 'b' + (c - 40); s.rgbBack = '' } else if (c >= 100 && c <= 107) { s.bg = 'b' + (c - 92); s.rgbBack = '' }
    else if (c === 39) s.fg = s.rgb = ''
    else if (c === 49) s.bg = s.rgbBack = ''
    else if (c === 38 || c === 48) {
      let color = ''
      if (codes[i + 1] === 5) { color = cube(codes[i + 2]); i += 2 } else if (codes[i + 1] === 2) { color = `rgb(${codes.slice(i + 2, i + 5).map((n) => Math.min(255, n || 0)).join(' ')})`; i += 4 }
      if (c === 38) { s.fg = ''; s.rgb = color } else { s.bg = ''; s.rgbBack = color }
    }
  }
  return s
}
function cube(n: number): string {
  if (!(n >= 0 && n < 256)) return ''
  if (n >= 232) { const g = 8 + (n - 232) * 10; return `rgb(${g} ${g} ${g})` }
  if (n < 16) return `var(--ansi${n})`
  const v = (x: number) => (x ? 55 + x * 40 : 0)
  n -= 16
  return `rgb(${v(Math.floor(n / 36))} ${v(Math.floor(n / 6) % 6)} ${v(n % 6)})`
}

export class Ansi {
  private style = none
  // line turns a line into elements. Styles go on in the next line.
  line(s: string, mark?: RegExp): (string | JSX.Element)[] {
    const out: (string | JSX.Element)[] = []
    let at = 0
    const put = (t: string) => {
      if (!t) return
      const st = this.style
      const c = [st.fg, st.bg, st.bold && 'bo', st.dim && 'di', st.under && 'un', st.italic && 'it'].filter(Boolean).join(' ')
      const body = mark ? marked(t, mark) : t
      out.push(c || st.rgb || st.rgbBack ? <span class={c} style={st.rgb || st.rgbBack ? { color: st.rgb || undefined, backgroundColor: st.rgbBack || undefined } : undefined}>{body}</span> : Array.isArray(body) ? <span>{body}</span> : body)
    }
    s = s.replace(/\r+$/, '')
    const cr = s.lastIndexOf('\r')
    if (cr >= 0) s = s.slice(cr + 1) // progress bars write over their line
    for (const m of s.matchAll(escape)) {
      put(s.slice(at, m.index))
      at = m.index + m[0].length
      if (m[1] !== undefined) this.style = apply(this.style, m[1] === '' ? [0] : m[1].split(/[;:]/).map(Number))
    }
    put(s.slice(at))
    return out
  }
}
function marked(t: string, mark: RegExp): string | (string | JSX.Element)[] {
  const out: (string | JSX.Element)[] = []
  let at = 0
  for (const m of t.matchAll(mark)) {
    if (!m[0]) break
    out.push(t.slice(at, m.index), <mark>{m[0]}</mark>)
    at = m.index + m[0].length
  }
  return out.length ? [...out, t.slice(at)] : t
}
