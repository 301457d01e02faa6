// Highlighting of job files. It colours words; it decides nothing.
import type { JSX } from 'preact'

const hcl = /(#[^\n]*|\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|(<<-?(\w+)\n[\s\S]*?(?:\n\s*\3(?=\n|$)|$))|("(?:\\.|[^"\\\n])*"?)|\b(true|false|null)\b|(-?\b\d[\w.]*\b)|([A-Za-z_][\w-]*)(?=\s*(?:=(?!=)|:))|([A-Za-z_][\w-]*)(?=\s*(?:"[^"\n]*"\s*)*\{)/g
const json = /(\/\/\u0000)|(\/\/\u0000)|(\/\/\u0000)|("(?:\\.|[^"\\\n])*"?)(?!\s*:)|\b(true|false|null)\b|(-?\b\d[\w.+-]*\b)|("(?:\\.|[^"\\\n])*")(?=\s*:)/g
const classes = ['', 'hc', 'hs', '', 'hs', 'hk', 'hn', 'ha', 'hb']

export function highlight(text: string): (string | JSX.Element)[] {
  const out: (string | JSX.Element)[] = []
  let at = 0
  for (const m of text.matchAll(text.trimStart().startsWith('{') ? json : hcl)) {
    const i = m.findIndex((g, k) => k > 0 && k !== 3 && g !== undefined)
    out.push(text.slice(at, m.index), <span class={classes[i]}>{m[0]}</span>)
    at = m.index + m[0].length
  }
  out.push(text.slice(at))
  return out
}
