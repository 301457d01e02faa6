// Run a job: write it, see what would happen, run it, watch it. A change that an
// explanation offers is made in the text first.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ApiError, enc, get, session, write } from '../api'
import { Diff } from '../diff'
import { applyChange } from '../edit'
import { highlight } from '../highlight'
import type { PageProps } from '../pages'
import { go, to } from '../router'
import type { Explanation, Job } from '../types'
import { Action, ErrorBox, Loading, Page, Panel, Status, Table1 } from '../ui'
import { planText, type Planned } from './job_scale'
import { lackOf } from './job_more'

const sample = `job "hello" {
  group "web" {
    count = 2

    task "server" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do date; sleep 5; done"]
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
`
interface Problem { line: number; from: number; to: number; text: string }

// problemsOf finds the places in an error: "job:3,5-12: message", also 3,5-4,1.
export function problemsOf(message: string): Problem[] {
  return [...message.matchAll(/[\w./-]*:(\d+),(\d+)-(?:(\d+),)?(\d+): ([^\n]*)/g)].map((m) => ({ line: Number(m[1]), from: Number(m[2]), to: m[3] && m[3] !== m[1] ? Number(m[2]) + 1 : Number(m[4]), text: m[5] }))
}

export default function Run({ place }: PageProps) {
  const of = place.query.get('job') ?? '', ns = place.query.get('ns') ?? 'default', group = place.query.get('group') ?? '', change = place.query.get('change')
  const [text, setText] = useState<string | null>(of ? null : sample)
  const [note, setNote] = useState('')
  const [vars, setVars] = useState('')
  const [flags, setFlags] = useState<Record<string, string>>({})
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState('')
  const [planned, setPlanned] = useState<{ job: Job; plan: Planned; text: string } | null>(null)

  useEffect(() => {
    if (!of) return
    let over = false
    const load = async () => {
      const job = (await get<Job>('/v1/job/' + enc(of), { namespace: ns })).data
      let source = ''
      try {
        const s = (await get<{ Source: string; Format: string; VariableFlags: Record<string, string> | null; Variables: string }>(`/v1/job/${enc(of)}/submission`, { namespace: ns, version: job.Version })).data
        source = s.Source
        setFlags(s.VariableFlags ?? {})
        setVars(s.Variables ?? '')
      } catch { /* the job file was not kept */ }
      let t = source || JSON.stringify({ ...job, Stop: false }, null, 2)
      if (!source) setNote('The job file was not kept, so this is the job as JSON, with all defaults.')
      if (change !== null) {
        const why = (await get<Explanation>(`/v1/job/${enc(of)}/explain`, { namespace: ns })).data
        const c = why.Groups?.find((g) => g.Group === group)?.Changes?.[Number(change)]
        const done = c && (applyChange(t, group, c) ?? null)
        if (done) { t = done; setNote(`This change was made in the text: ${c.Text}. See what it would do, then run it.`) }
        else if (c) { const asJSON = applyChange(JSON.stringify({ ...job, Stop: false }, null, 2), group, c); if (asJSON) { t = asJSON; setNote(`This change was made: ${c.Text}. The job file computes what it changes, so the job is shown as JSON.`) } else setNote(`Make this change in the text: ${c.Text}.`) }
        else setNote('That change is not offered any more: what the cluster has was changed since.')
      }
      if (!over) setText(t)
    }
    load().catch((e) => { if (!over) { setError(e); setText('') } })
    return () => { over = true }
  }, [of, ns, group, change])

  const submission = (t: string) => ({ Source: t, Format: t.trimStart().startsWith('{') ? 'json' : 'hcl2', Variables: vars, VariableFlags: flags })
  const parse = async (t: string): Promise<Job> => {
    if (t.trimStart().startsWith('{')) { try { const o = JSON.parse(t); return o.Job ?? o.job ?? o } catch (e) { throw new ApiError(400, 'The text is not JSON: ' + (e as Error).message) } }
    const all = [...Object.entries(flags).map(([k, v]) => `${k} = ${/^(\d+(\.\d+)?|true|false|[[{].*)$/s.test(v) ? v : JSON.stringify(v)}`), vars].join('\n')
    return write<Job>('PUT', '/v1/jobs/parse', { JobHCL: t, Variables: all, Canonicalize: true }, { namespace: ns })
  }
  const step = async (name: string, f: () => Promise<void>) => {
    setBusy(name)
    setError(null)
    try { await f() } catch (e) { setError(e instanceof ApiError ? e : new ApiError(0, String(e))) } finally { setBusy('') }
  }
  const plan = () => step('plan', async () => {
    const job = await parse(text!)
    const plan = await write<Planned>('PUT', `/v1/job/${enc(job.ID)}/plan`, { Job: job, Diff: true }, { namespace: job.Namespace || ns })
    setPlanned({ job, plan, text: text! })
  })
  const run = () => step('run', async () => {
    const { job, plan } = planned!
    await write('PUT', '/v1/jobs', { Job: job, Submission: submission(planned!.text), EnforceIndex: true, JobModifyIndex: plan.JobModifyIndex }, { namespace: job.Namespace || ns })
    go(to.job(job.Namespace || ns, job.ID))
  })
  const problems = useMemo(() => (error ? problemsOf(error.message) : []), [error])
  const current = planned && planned.text === text
  if (text === null) return <Page title="Run a job"><Loading what="the job" /></Page>
  return <Page title={of ? `Change ${of}` : 'Run a job'} crumbs={of ? [['Jobs', '/jobs'], [of, to.job(ns, of)]] : [['Jobs', '/jobs']]} command="berth job plan web.nomad.hcl && berth job run web.nomad.hcl"
    answer="Nothing runs before you have seen what would happen."
    actions={<><Action need="submit-job" ns={ns} tone={current ? '' : 'main-action'} disabled={busy !== '' || text.trim() === ''} onClick={plan}>{busy === 'plan' ? 'Trying…' : 'See what would happen'}</Action>{current && <Action need="submit-job" ns={ns} tone="main-action" disabled={busy !== ''} onClick={run}>{busy === 'run' ? 'Submitting…' : 'Run it'}</Action>}</>}>
    {note && <div class="note">{note}</div>}
    {!session.may('submit-job', ns) && <div class="note warn">Your token lacks submit-job in namespace {ns}: you can read here and not run.</div>}
    {problems.length > 0 ? <div class="error" role="alert"><div class="stack8"><b>{problems.length === 1 ? 'There is a problem in the job' : `There are ${problems.length} problems in the job`}</b>{problems.map((p, i) => <div key={i} class="wrap">line {p.line}: {p.text}</div>)}</div></div> : <ErrorBox error={error} />}
    {current && <PlanView planned={planned} />}
    {planned && !current && <div class="note warn">The text was changed since: see again what would happen.</div>}
    <Editor text={text} set={setText} problems={problems} />
    {Object.keys(flags).length > 0 && <Panel title="Variables">{Object.entries(flags).map(([k, v]) => <label class="field" key={k}>{k}<input type="text" value={v} onInput={(e) => setFlags({ ...flags, [k]: e.currentTarget.value })} /></label>)}</Panel>}
    <details><summary class="small">Variables of the job file</summary><textarea class="mono" style={{ width: '100%' }} rows={4} aria-label="Variables, as in a variable file" placeholder={'count = 3'} value={vars} onInput={(e) => setVars(e.currentTarget.value)} /></details>
  </Page>
}

function PlanView({ planned }: { planned: { job: Job; plan: Planned } }) {
  const { plan, job } = planned
  const waits = Object.keys(plan.FailedTGAllocs ?? {})
  const victims = plan.Annotations?.PreemptedAllocs ?? []
  return <Panel title={<>What would happen {waits.length > 0 ? <Status state="waiting" text="a part will wait for capacity" /> : <Status state="ready" text="all of it can be placed" />}</>}>
    <div class="stack8">
      <ul style={{ margin: 0 }}>{planText(plan).map((l) => <li key={l}>{l}</li>)}{job.Periodic && plan.NextPeriodicLaunch > '0002' && <li>The next launch is at {plan.NextPeriodicLaunch}.</li>}</ul>
      {waits.length > 0 && <div class="note warn">{lackOf({ FailedTGAllocs: plan.FailedTGAllocs } as any)}</div>}
      {victims.length > 0 && <><h3>Allocations of other jobs that would be preempted</h3><Table1 label="Preempted" head={['Allocation', 'Job']} rows={victims.map((a) => [a.Name, a.JobID])} /></>}
      {plan.Warnings && <div class="note warn wrap">{plan.Warnings}</div>}
      <Diff diff={plan.Diff} />
    </div>
  </Panel>
}

function Editor({ text, set, problems }: { text: string; set: (t: string) => void; problems: Problem[] }) {
  const area = useRef<HTMLTextAreaElement>(null)
  const lines = text.split('\n').length
  const colored = useMemo(() => highlight(text), [text])
  const bad = new Map(problems.map((p) => [p.line, p]))
  const first = problems[0]
  useEffect(() => {
    if (!first || !area.current) return
    const starts = text.split('\n')
    let at = 0
    for (let i = 0; i < first.line - 1 && i < starts.length; i++) at += starts[i].length + 1
    area.current.focus()
    area.current.setSelectionRange(at + first.from - 1, at + Math.max(first.from, first.to - 1))
  }, [problems])
  return <div class="editor">
    <div class="gutter" aria-hidden="true">{Array.from({ length: lines }, (_, i) => <div key={i} class={bad.has(i + 1) ? 'bad' : ''} title={bad.get(i + 1)?.text}>{i + 1}</div>)}</div>
    <div class="code"><pre aria-hidden="true">{colored}{'\n'}</pre>
      {problems.map((p, i) => <div key={i} class="squiggle" style={{ top: (p.line - 1) * 20 + 8 + 'px', left: `calc(${p.from - 1}ch + 12px)`, width: Math.max(1, p.to - p.from) + 'ch' }} title={p.text} />)}
      <textarea ref={area} aria-label="Job file" spellcheck={false} autocapitalize="off" value={text} wrap="off" onInput={(e) => set(e.currentTarget.value)}
        onKeyDown={(e) => {
          const t = e.currentTarget
          if (e.key === 'Tab' && !e.shiftKey && !e.ctrlKey) { e.preventDefault(); t.setRangeText('  ', t.selectionStart, t.selectionEnd, 'end'); set(t.value) }
          if (e.key === 'Escape') t.blur()
          if (e.key === 'Enter') { const before = t.value.slice(0, t.selectionStart), line = before.slice(before.lastIndexOf('\n') + 1), indent = /^\s*/.exec(line)![0] + (/[{[(]\s*$/.test(line) ? '  ' : ''); e.preventDefault(); t.setRangeText('\n' + indent, t.selectionStart, t.selectionEnd, 'end'); set(t.value) }
        }} /></div>
  </div>
}
