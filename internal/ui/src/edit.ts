// Making a change that an explanation offers in the text of a job.
import type { Change } from './types'

// applyChange returns the text with the change, null if it cannot be made in this
// text: then the value is computed, or stands elsewhere.
export function applyChange(text: string, group: string, c: Change): string | null {
  const out = text.trimStart().startsWith('{') ? inJSON(text, group, c) : inHCL(text, group, c)
  return out !== null && c.And ? applyChange(out, group, c.And) : out
}

// block finds the body of a block: the place after its brace, and that of the
// brace that closes it.
export function block(text: string, head: RegExp, from = 0, to = text.length): [number, number, number] | null {
  const re = new RegExp(head.source, 'g')
  re.lastIndex = from
  const m = re.exec(text)
  if (!m || m.index >= to) return null
  let depth = 1, i = m.index + m[0].length
  for (let quote = false; i < text.length && depth > 0; i++) {
    const ch = text[i]
    if (quote) { if (ch === '\\') i++; else if (ch === '"') quote = false } else if (ch === '"') quote = true
    else if (ch === '#' || (ch === '/' && text[i + 1] === '/')) { while (i < text.length && text[i] !== '\n') i++ } else if (ch === '{') depth++
    else if (ch === '}') depth--
  }
  return depth ? null : [m.index, m.index + m[0].length, i - 1]
}
const esc = (s: string) => s.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
const named = (kind: string, name: string) => new RegExp(`\\b${kind}\\s+"${esc(name)}"\\s*\\{`)

function setNumber(text: string, from: number, to: number, key: string, value: number): string | null {
  const re = new RegExp(`(\\b${key}\\s*=\\s*)(\\d+)`)
  const body = text.slice(from, to)
  return re.test(body) ? text.slice(0, from) + body.replace(re, `$1${value}`) + text.slice(to) : null
}

function inHCL(text: string, group: string, c: Change): string | null {
  const job = block(text, /\bjob\s+"[^"]*"\s*\{/)
  const g = job && block(text, named('group', group), job[1], job[2])
  if (!job || !g) return null
  if (c.Less) {
    if (c.Less.Dimension === 'disk') { const d = block(text, /\bephemeral_disk\s*\{/, g[1], g[2]); return d && setNumber(text, d[1], d[2], 'size', c.Less.To) }
    if (c.Less.Dimension !== 'cpu' && c.Less.Dimension !== 'memory') return null
    let out: string | null = text
    for (const [task, n] of Object.entries(c.Less.Tasks ?? {})) {
      if (out === null) return null
      const at = block(out, named('group', group))
      const t: [number, number, number] | null = at && block(out, named('task', task), at[1], at[2])
      const r: [number, number, number] | null = t && block(out, /\bresources\s*\{/, t[1], t[2])
      out = r ? setNumber(out, r[1], r[2], c.Less.Dimension, n) : null
    }
    return out
  }
  if (c.Datacenter) { const m = /(\bdatacenters\s*=\s*\[)([^\]]*)(\])/.exec(text); return m ? text.slice(0, m.index) + m[1] + (m[2].trim() ? m[2].trimEnd() + ', ' : '') + JSON.stringify(c.Datacenter) + m[3] + text.slice(m.index + m[0].length) : text.slice(0, job[1]) + `\n  datacenters = ["*"]` + text.slice(job[1]) }
  if (c.NodePool) { const m = /(\bnode_pool\s*=\s*)"[^"]*"/.exec(text); return m ? text.slice(0, m.index) + m[1] + JSON.stringify(c.NodePool) + text.slice(m.index + m[0].length) : text.slice(0, job[1]) + `\n  node_pool = ${JSON.stringify(c.NodePool)}` + text.slice(job[1]) }
  if (c.Misspelt) return text.includes(c.Misspelt.Attribute) ? text.replaceAll(c.Misspelt.Attribute, c.Misspelt.Instead) : null
  if (c.Drop?.length) {
    let out = text
    for (const d of c.Drop) {
      let done = false
      for (let from = 0, b; (b = block(out, /\bconstraint\s*\{/, from)); from = b[1]) {
        const body = out.slice(b[1], b[2])
        const attr = /\battribute\s*=\s*"([^"]*)"/.exec(body)?.[1], value = /\bvalue\s*=\s*"([^"]*)"/.exec(body)?.[1] ?? ''
        if (attr && d.includes(attr) && d.includes(value)) {
          let start = b[0]
          while (start > 0 && (out[start - 1] === ' ' || out[start - 1] === '\t')) start--
          out = out.slice(0, start) + out.slice(b[2] + 1).replace(/^[ \t]*\n/, '')
          done = true
          break
        }
      }
      if (!done) return null
    }
    return out
  }
  if (c.Port?.Dynamic) { const re = new RegExp(`^[ \\t]*static\\s*=\\s*${c.Port.Port}[ \\t]*\\n`, 'm'); return re.test(text) ? text.replace(re, '') : null }
  return null
}

function inJSON(text: string, group: string, c: Change): string | null {
  let o: any
  try { o = JSON.parse(text) } catch { return null }
  const job = o.Job ?? o
  const g = (job.TaskGroups ?? []).find((x: any) => x.Name === group)
  if (!g) return null
  const shown = (x: any) => `${x.LTarget ?? ''} ${x.Operand ?? ''} ${x.RTarget ?? ''}`
  if (c.Less) {
    if (c.Less.Dimension === 'disk') g.EphemeralDisk = { ...g.EphemeralDisk, SizeMB: c.Less.To }
    else for (const t of g.Tasks ?? []) { const n = c.Less.Tasks?.[t.Name]; if (n !== undefined) t.Resources = { ...t.Resources, [c.Less.Dimension === 'cpu' ? 'CPU' : 'MemoryMB']: n } }
  } else if (c.Datacenter) job.Datacenters = [...(job.Datacenters ?? []), c.Datacenter]
  else if (c.NodePool) job.NodePool = c.NodePool
  else if (c.Drop?.length) {
    let n = 0
    const keep = (list: any[] | null) => list && list.filter((x) => { const hit = c.Drop!.some((d) => d === shown(x) || (d.includes(x.LTarget) && d.includes(x.RTarget))); if (hit) n++; return !hit })
    job.Constraints = keep(job.Constraints)
    g.Constraints = keep(g.Constraints)
    for (const t of g.Tasks ?? []) t.Constraints = keep(t.Constraints)
    if (!n) return null
  } else if (c.Misspelt) return text.replaceAll(c.Misspelt.Attribute, c.Misspelt.Instead)
  else return null
  return JSON.stringify(o, null, 2)
}
