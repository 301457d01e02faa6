// The versions of a job: what changed in each, tags, and going back.
import { useState } from 'preact/hooks'
import { enc, write } from '../api'
import { Diff } from '../diff'
import { useQuery } from '../live'
import { useParam } from '../router'
import type { Job, JobDiff } from '../types'
import { Action, ErrorBox, Loading, Panel, Time, useTask } from '../ui'
import { Confirm, type JobView } from './job'
import { planText, type Planned } from './job_scale'

export function Versions({ v }: { v: JobView }) {
  const [against, setAgainst] = useParam('against')
  const q = useQuery<{ Versions: Job[] | null; Diffs: JobDiff[] | null }>(`/v1/job/${enc(v.id)}/versions`, { namespace: v.ns, diffs: true, diff_version: against || undefined }, ['Job:' + v.id])
  const [open, setOpen] = useState<[string, Job] | null>(null)
  if (!q.data) return q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="the versions" />
  const versions = q.data.Versions ?? []
  return <div class="stack">
    <div class="tools"><label class="row small">Compare each with <select value={against} onChange={(e) => setAgainst(e.currentTarget.value)}><option value="">the one before it</option>{versions.map((x) => <option key={x.Version} value={String(x.Version)}>version {x.Version}{x.VersionTag ? ' (' + x.VersionTag.Name + ')' : ''}</option>)}</select></label></div>
    {versions.map((x, i) => <Panel key={x.Version} title={<>Version {x.Version} {x.Version === v.job.Version && <span class="tag">now</span>} {x.Stable && <span class="tag">stable</span>} {x.VersionTag && <span class="tag" title={x.VersionTag.Description}>{x.VersionTag.Name}</span>} <span class="dim small" style={{ fontWeight: 400 }}><Time at={x.SubmitTime} /></span></>}
      actions={<div class="row"><Action need="submit-job" ns={v.ns} tone="small" onClick={() => setOpen(['tag', x])}>Tag…</Action>{x.Version !== v.job.Version && <Action need="submit-job" ns={v.ns} tone="small" onClick={() => setOpen(['revert', x])}>Revert to it…</Action>}</div>}>
      <Diff diff={q.data!.Diffs?.[i]} />
    </Panel>)}
    {open?.[0] === 'revert' && <Revert v={v} version={open[1]} onClose={() => { setOpen(null); q.refresh() }} />}
    {open?.[0] === 'tag' && <Tag v={v} version={open[1]} onClose={() => { setOpen(null); q.refresh() }} />}
  </div>
}

function Revert({ v, version, onClose }: { v: JobView; version: Job; onClose: () => void }) {
  const [plan, setPlan] = useState<Planned | null>(null)
  const task = useTask()
  const [asked, setAsked] = useState(false)
  if (!asked) {
    setAsked(true)
    task.run(async () => { setPlan(await write<Planned>('PUT', `/v1/job/${enc(v.id)}/plan`, { Job: { ...version, Stop: false }, Diff: true }, { namespace: v.ns })) })
  }
  return <Confirm title={`Revert to version ${version.Version}`} confirm="Revert" done={`Reverted to version ${version.Version}`} onClose={onClose}
    run={async () => { await write('PUT', `/v1/job/${enc(v.id)}/revert`, { JobID: v.id, JobVersion: version.Version, EnforcePriorVersion: v.job.Version }, { namespace: v.ns }); v.refresh() }}>
    <ErrorBox error={task.error} />
    {plan ? <><p>This will happen:</p><ul style={{ margin: 0 }}>{planText(plan).map((l) => <li key={l}>{l}</li>)}</ul><Diff diff={plan.Diff} /></> : !task.error && <p class="dim">The change is tried…</p>}
  </Confirm>
}

function Tag({ v, version, onClose }: { v: JobView; version: Job; onClose: () => void }) {
  const had = version.VersionTag
  const [name, setName] = useState(had?.Name ?? '')
  const [text, setText] = useState(had?.Description ?? '')
  return <Confirm title={`Tag version ${version.Version}`} confirm={name ? 'Tag it' : 'Remove the tag'} done={name ? 'Tagged' : 'The tag is removed'} onClose={onClose}
    run={async () => {
      const at = (n: string) => `/v1/job/${enc(v.id)}/versions/${enc(n)}/tag`
      if (had && had.Name !== name) await write('DELETE', at(had.Name), undefined, { namespace: v.ns })
      if (name) await write('PUT', at(name), { Version: version.Version, Description: text }, { namespace: v.ns })
    }} text="Tagged versions are kept, and can be named in comparisons.">
    <label class="field">Name<input type="text" value={name} onInput={(e) => setName(e.currentTarget.value.trim())} /></label>
    <label class="field">Description<input type="text" value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
  </Confirm>
}
