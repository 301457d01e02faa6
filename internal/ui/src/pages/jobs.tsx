// All jobs. The server searches, filters and pages; children stand under their
// parent.
import { useEffect, useState } from 'preact/hooks'
import { quoted, session } from '../api'
import { href, to, useParam } from '../router'
import { PagedTable } from '../table'
import { Empty, Page, Squares, Status, Time, plural } from '../ui'

export interface Group { Queued: number; Complete: number; Failed: number; Running: number; Starting: number; Lost: number; Unknown: number }
export interface JobStub {
  ID: string; Name: string; ParentID: string; Namespace: string; Type: string; NodePool: string; Priority: number; Periodic: boolean; ParameterizedJob: boolean; Stop: boolean
  Status: string; StatusDescription: string; SubmitTime: number; Version: number
  JobSummary: { Summary: Record<string, Group>; Children: { Pending: number; Running: number; Dead: number } | null } | null
}
export function sumOf(groups: Record<string, Group> | undefined): Group {
  const t: Group = { Queued: 0, Complete: 0, Failed: 0, Running: 0, Starting: 0, Lost: 0, Unknown: 0 }
  for (const g of Object.values(groups ?? {})) for (const k of Object.keys(t) as (keyof Group)[]) t[k] += g[k] || 0
  return t
}
export function squaresOf(t: Group): [string, number][] { return [['running', t.Running], ['starting', t.Starting], ['queued', t.Queued], ['failed', t.Failed], ['lost', t.Lost], ['unknown', t.Unknown], ['complete', t.Complete]] }

// jobState says what is true: a job that waits has not failed.
export function jobState(j: { Stop: boolean; Status: string; Type: string; Periodic?: unknown; ParameterizedJob?: unknown }, t: Group): [string, string] {
  if (j.Stop) return ['stopped', t.Running + t.Starting > 0 ? 'stopping' : 'stopped']
  if (j.Periodic) return ['running', 'periodic']
  if (j.ParameterizedJob) return ['running', 'waits for dispatches']
  if (t.Queued > 0) return ['waiting', t.Running > 0 ? 'partly running' : 'waiting for capacity']
  if (t.Starting > 0) return ['starting', 'starting']
  if (j.Status === 'running') return t.Running > 0 ? ['running', 'running'] : ['starting', 'starting']
  if (j.Status === 'pending') return ['starting', 'being scheduled']
  return t.Failed + t.Lost > 0 ? ['failed', 'failed'] : ['finished', 'finished']
}

const states: Record<string, string> = { running: 'Status == "running" and Stop == false', pending: 'Status == "pending" and Stop == false', dead: 'Status == "dead" and Stop == false', stopped: 'Stop == true' }

export default function Jobs() {
  const [text, setText] = useParam('q')
  const [ns, setNS] = useParam('namespace', '*')
  const [status, setStatus] = useParam('status')
  const [type, setType] = useParam('type')
  const [pool, setPool] = useParam('pool')
  const [typed, setTyped] = useState(text)
  const [count, setCount] = useState('')
  useEffect(() => { const t = setTimeout(() => setText(typed.trim()), 180); return () => clearTimeout(t) }, [typed])
  const parts = ['ParentID == ""']
  if (text.startsWith('=')) { if (text.length > 1) parts.push('(' + text.slice(1) + ')') } else if (text) parts.push(`(ID contains ${quoted(text)} or Name contains ${quoted(text)})`)
  if (states[status]) parts.push(states[status])
  if (type) parts.push(`Type == ${quoted(type)}`)
  if (pool) parts.push(`NodePool == ${quoted(pool)}`)
  const filtered = parts.length > 1 || ns !== '*'
  return <Page title="Jobs" fill status={<span class="dim" aria-live="polite">{count}</span>} actions={session.may('submit-job') ? <a class="btn main-action" href={href('/run')}>Run a job</a> : undefined}>
    <div class="tools">
      <input type="search" placeholder="Search by name; = begins an expression" aria-label="Search jobs" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
      <Choice label="Status" value={status} set={setStatus} of={[['', 'Any status'], ['running', 'Running'], ['pending', 'Pending'], ['dead', 'Finished'], ['stopped', 'Stopped']]} />
      <Choice label="Type" value={type} set={setType} of={[['', 'Any type'], ...['service', 'batch', 'system', 'sysbatch', 'stream'].map((t) => [t, t] as [string, string])]} />
      <Choice label="Namespace" value={ns} set={setNS} of={[['*', 'All namespaces'], ...(session.start?.Namespaces ?? ['default']).map((n) => [n, n] as [string, string])]} />
      {pool && <button class="btn small" onClick={() => setPool('')}>Pool {pool} ✕</button>}
    </div>
    <PagedTable<JobStub> label="Jobs" path="/v1/jobs" params={{ namespace: ns, filter: parts.join(' and ') }} watch={['Job', 'Allocation', 'Evaluation']} rowKey={(j) => j.Namespace + '\n' + j.ID} rowTo={(j) => to.job(j.Namespace, j.ID)}
      onCount={(n, all) => setCount(n === 0 ? '' : (all ? '' : 'more than ') + plural(n, 'job'))}
      empty={filtered ? <Empty title="No job matches">Change the search or the filters.</Empty> : <Empty title="No job yet" command="berth job run examples/web.nomad.hcl">Submit one here with “Run a job”, or on the command line:</Empty>}
      columns={[
        { title: 'Job', cell: (j) => <a href={href(to.job(j.Namespace, j.ID))} title={j.ID}><b>{j.Name || j.ID}</b></a> },
        { title: 'State', cell: (j) => { const [s, t] = jobState(j, sumOf(j.JobSummary?.Summary)); return <Status state={s} text={t} /> } },
        { title: 'Allocations', cell: (j) => { const c = j.JobSummary?.Children; return (j.Periodic || j.ParameterizedJob) && c ? <span class="small">{plural(c.Running + c.Pending, 'child', 'children')} open, {c.Dead} finished</span> : <Squares counts={squaresOf(sumOf(j.JobSummary?.Summary))} /> } },
        { title: 'Type', class: 'p2', cell: (j) => j.Type }, { title: 'Namespace', class: 'p2', cell: (j) => j.Namespace }, { title: 'Pool', class: 'p3', cell: (j) => j.NodePool },
        { title: 'Priority', class: 'num p3', cell: (j) => j.Priority }, { title: 'Version', class: 'num p3', cell: (j) => j.Version }, { title: 'Submitted', class: 'p2', cell: (j) => <Time at={j.SubmitTime} /> },
      ]} />
  </Page>
}

export function Choice({ label, value, set, of }: { label: string; value: string; set: (v: string) => void; of: [string, string][] }) {
  return <select aria-label={label} value={value} onChange={(e) => set(e.currentTarget.value)}>{of.map(([v, name]) => <option key={v} value={v}>{name}</option>)}</select>
}
