// An allocation: its tasks, what happened to them, what they use, their logs and
// files, and a terminal in them.
import { useState } from 'preact/hooks'
import { enc, write } from '../api'
import { useQuery } from '../live'
import type { PageProps } from '../pages'
import { href, setParams, to } from '../router'
import type { Alloc, TaskState } from '../types'
import { Action, Copy, ErrorBox, ID, KV, Loading, Page, Panel, Status, Table1, Tabs, Time, exact, mhz, mib, millis, plural } from '../ui'
import { Files } from './alloc_files'
import { Logs } from './alloc_logs'
import { Stats } from './alloc_stats'
import { Terminal } from './alloc_exec'
import { Confirm } from './job'
import { allocState, health, restarts } from './job_status'

export default function AllocPage({ place }: PageProps) {
  const id = place.parts[1] ?? '', tab = place.parts[2] ?? 'status'
  const q = useQuery<Alloc>('/v1/allocation/' + enc(id), {}, ['Allocation:' + id])
  const a = q.data
  if (!a) return <Page title="Allocation" crumbs={[['Jobs', '/jobs']]}>{q.error ? <ErrorBox error={q.error} retry={q.refresh} /> : <Loading what="the allocation" />}</Page>
  const tasks = (a.Job?.TaskGroups ?? []).find((g) => g.Name === a.TaskGroup)?.Tasks.map((t) => t.Name) ?? Object.keys(a.TaskStates ?? {})
  const wanted = place.query.get('task') ?? ''
  const task = tasks.includes(wanted) ? wanted : main(a, tasks)
  const [state, text] = allocState(a)
  const picker = tasks.length > 1 && (tab === 'logs' || tab === 'exec') ? <select aria-label="Task" value={task} onChange={(e) => setParams({ task: e.currentTarget.value })}>{tasks.map((t) => <option key={t}>{t}</option>)}</select> : null
  const tabs = ['status', 'logs', 'files', 'exec'].map((t) => ({ id: t, name: { status: 'Status', logs: 'Logs', files: 'Files', exec: 'Terminal' }[t]!, to: to.alloc(id, t === 'status' ? '' : t, task === main(a, tasks) ? '' : task) }))
  return <Page title={a.Name} fill={tab === 'logs'} crumbs={[['Jobs', '/jobs'], [a.JobID, to.job(a.Namespace, a.JobID)]]} answer={sentence(a)} command={tab === 'logs' ? `berth alloc logs -f ${id} ${task}` : tab === 'exec' ? `berth alloc exec -task ${task} ${id} /bin/sh` : tab === 'files' ? `berth alloc fs ${id}` : `berth alloc status ${id}`}
    status={<><Status state={state} text={text} pill />{health(a) && <span class="tag">{health(a)}</span>}</>} actions={<Actions a={a} tasks={tasks} />}>
    <div class="row"><Tabs tabs={tabs} at={tab} />{picker}</div>
    {tab === 'status' && <Overview a={a} tasks={tasks} />}
    {tab === 'logs' && <Logs key={task} id={a.ID} ns={a.Namespace} task={task} running={a.ClientStatus === 'running' || a.ClientStatus === 'pending'} />}
    {tab === 'files' && <Files id={a.ID} ns={a.Namespace} />}
    {tab === 'exec' && <Terminal key={task} id={a.ID} ns={a.Namespace} task={task} running={a.TaskStates?.[task]?.State === 'running'} />}
  </Page>
}

// main is the task that matters most: one that failed, else the first without a
// lifecycle hook.
function main(a: Alloc, tasks: string[]): string {
  const failed = Object.entries(a.TaskStates ?? {}).find(([, t]) => t.Failed)?.[0]
  const group = (a.Job?.TaskGroups ?? []).find((g) => g.Name === a.TaskGroup)
  return failed ?? group?.Tasks.find((t) => !t.Lifecycle)?.Name ?? tasks[0] ?? ''
}

function sentence(a: Alloc): string {
  const failed = Object.entries(a.TaskStates ?? {}).find(([, t]) => t.Failed)
  const last = failed && [...(failed[1].Events ?? [])].reverse().find((e) => e.Type === 'Terminated' || e.Type.includes('Failure'))
  const where = a.NodeName ? ` on ${a.NodeName}` : ''
  if (failed) return `Task ${failed[0]} failed${where}${last ? ': ' + last.DisplayMessage : ''}.`
  if (a.DesiredStatus !== 'run') return `It was told to stop${a.DesiredDescription ? ': ' + a.DesiredDescription : ''}.`
  if (a.ClientStatus === 'running') return `It runs${where}${restarts(a) ? `, after ${plural(restarts(a), 'restart')}` : ''}.`
  return (a.ClientDescription || a.ClientStatus) + where + '.'
}

function Overview({ a, tasks }: { a: Alloc; tasks: string[] }) {
  const r = a.AllocatedResources
  const ports = r?.Shared.Ports ?? []
  const events = Object.entries(a.TaskStates ?? {}).flatMap(([task, t]) => (t.Events ?? []).map((e) => ({ task, e }))).sort((x, y) => y.e.Time - x.e.Time)
  return <div class="stack">
    <Panel title="Tasks" flush><Table1 label="Tasks" head={['Task', 'State', 'Started', 'Restarts', 'CPU', 'Memory', '']} classes={['', '', '', 'num', 'num p2', 'num p2', '']} rows={tasks.map((name) => {
      const t: TaskState | undefined = a.TaskStates?.[name], own = r?.Tasks[name]
      const [s, w] = taskState(t)
      return [<b>{name}</b>, <Status state={s} text={w} />, <Time at={t?.StartedAt} />, t?.Restarts ?? 0, own ? mhz(own.Cpu.CpuShares) : '–', own ? mib(own.Memory.MemoryMB) : '–', <a class="btn small" href={href(to.alloc(a.ID, 'logs', name))}>Logs</a>]
    })} /></Panel>
    {a.ClientStatus === 'running' && <Stats a={a} />}
    <Panel title="What happened" flush><Table1 label="Events" head={['When', 'Task', 'Event', 'Details']} rows={events.map(({ task, e }) => [<span title={exact(millis(e.Time))}><Time at={e.Time} /></span>, task, <span class={/Fail|Killed|Error/.test(e.Type) ? 'bad' : ''}>{e.Type}</span>, e.DisplayMessage || e.Message])} /></Panel>
    <div class="cols">
      <Panel title="Details"><KV of={[['ID', <ID id={a.ID} />], ['Job', <><a href={href(to.job(a.Namespace, a.JobID))}>{a.JobID}</a> version {a.JobVersion ?? a.Job?.Version}</>], ['Node', a.NodeName ? <a href={href(to.node(a.NodeID))}>{a.NodeName}</a> : '–'], ['Placed by', <ID id={a.EvalID} to={to.eval(a.EvalID)} />], ...(a.DeploymentID ? [['Deployment', <ID id={a.DeploymentID} to={to.deployment(a.DeploymentID)} />] as [string, any]] : []),
        ['Desired', <>{a.DesiredStatus} <span class="dim">{a.DesiredDescription}</span></>], ['Created', <Time at={a.CreateTime} />], ['Changed', <Time at={a.ModifyTime} />], ...(a.PreviousAllocation ? [['Replaces', <ID id={a.PreviousAllocation} to={to.alloc(a.PreviousAllocation)} />] as [string, any]] : []), ...(a.NextAllocation ? [['Replaced by', <ID id={a.NextAllocation} to={to.alloc(a.NextAllocation)} />] as [string, any]] : []), ...(a.FollowupEvalID ? [['Will be replaced by', <ID id={a.FollowupEvalID} to={to.eval(a.FollowupEvalID)} />] as [string, any]] : []), ...(a.PreemptedByAllocation ? [['Preempted by', <ID id={a.PreemptedByAllocation} to={to.alloc(a.PreemptedByAllocation)} />] as [string, any]] : [])]} /></Panel>
      {ports.length > 0 && <Panel title="Ports" flush><Table1 label="Ports" head={['Label', 'Address', 'In the task']} rows={ports.map((p) => [p.Label, <span class="mono">{p.HostIP}:{p.Value}<Copy text={`${p.HostIP}:${p.Value}`} /></span>, p.To || p.Value])} /></Panel>}
    </div>
  </div>
}
export function taskState(t: TaskState | undefined): [string, string] {
  if (!t) return ['pending', 'not started']
  if (t.State === 'running') return ['running', 'running']
  if (t.State === 'dead') return t.Failed ? ['failed', 'failed'] : ['finished', 'finished']
  return t.Restarts > 0 ? ['restarting', 'waits to restart'] : ['pending', 'starting']
}

function Actions({ a, tasks }: { a: Alloc; tasks: string[] }) {
  const [open, setOpen] = useState('')
  const [task, setTask] = useState('')
  const [signal, setSignal] = useState('SIGHUP')
  const live = a.ClientStatus === 'running' || a.ClientStatus === 'pending'
  const close = () => setOpen('')
  const pick = <label class="field">Task<select value={task} onChange={(e) => setTask(e.currentTarget.value)}><option value="">all that run</option>{tasks.map((t) => <option key={t}>{t}</option>)}</select></label>
  if (!live) return null
  const ns = { namespace: a.Namespace }
  return <div class="row">
    <Action need="alloc-lifecycle" ns={a.Namespace} onClick={() => setOpen('restart')}>Restart…</Action>
    <Action need="alloc-lifecycle" ns={a.Namespace} onClick={() => setOpen('signal')}>Signal…</Action>
    <Action need="alloc-lifecycle" ns={a.Namespace} tone="bad" onClick={() => setOpen('stop')}>Stop…</Action>
    {open === 'restart' && <Confirm title={`Restart ${a.Name}`} confirm="Restart" done="Restarting" onClose={close} run={() => write('PUT', `/v1/client/allocation/${a.ID}/restart`, { TaskName: task || undefined }, ns)} text="The tasks stop and start again on the same node, in the same directory.">{pick}</Confirm>}
    {open === 'signal' && <Confirm title={`Send a signal to ${a.Name}`} confirm="Send" done="The signal was sent" onClose={close} run={() => write('PUT', `/v1/client/allocation/${a.ID}/signal`, { Task: task, Signal: signal }, ns)}>{pick}<label class="field">Signal<select value={signal} onChange={(e) => setSignal(e.currentTarget.value)}>{['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGTERM', 'SIGKILL'].map((s) => <option key={s}>{s}</option>)}</select></label></Confirm>}
    {open === 'stop' && <Confirm title={`Stop ${a.Name}`} tone="bad" confirm="Stop it" done="It is stopping" onClose={close} run={() => write('PUT', `/v1/allocation/${a.ID}/stop`, undefined, ns)} text="Its tasks stop, and the scheduler places another allocation in its stead, perhaps on another node. To stop for good, scale the group down or stop the job." />}
  </div>
}
