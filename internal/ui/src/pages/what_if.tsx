// What would find no other place if nodes failed: tried by a server on a copy of
// the state.
import { useState } from 'preact/hooks'
import { get } from '../api'
import { href, to } from '../router'
import { ErrorBox, Panel, Table1, plural, useTask } from '../ui'
import { Choice } from './jobs'

interface WhatIf { Nodes: number; Names: string[]; Allocs: number; Moved: number; Lost: number; Bound: number; Groups: { Namespace: string; JobID: string; Group: string; Lost: number; Of: number; Why: string }[]; More: number; Hidden: number; NotTried: number }

export function WhatIfPanel({ racks, datacenters, pools, names }: { racks: string[]; datacenters: string[]; pools: string[]; names: string[] }) {
  const kinds: [string, string, string[]][] = [['rack', 'Rack', racks], ['datacenter', 'Datacenter', datacenters], ['pool', 'Node pool', pools], ['node', 'Node', names]]
  const some = kinds.filter(([, , list]) => list.length > 0)
  const [kind, setKind] = useState(some[0][0])
  const list = some.find(([k]) => k === kind)?.[2] ?? []
  const [which, setWhich] = useState('')
  const [answer, setAnswer] = useState<WhatIf | null>(null)
  const task = useTask()
  const value = list.includes(which) ? which : list[0]
  return <Panel title="What if these nodes fail?">
    <form class="row" onSubmit={(e) => { e.preventDefault(); setAnswer(null); task.run(async () => setAnswer((await get<WhatIf>('/v1/nodes/what-if', { [kind]: value })).data)) }}>
      <Choice label="What fails" value={kind} set={(v) => { setKind(v); setAnswer(null) }} of={some.map(([k, name]) => [k, name])} />
      {list.length <= 200 ? <Choice label="Which" value={value} set={(v) => { setWhich(v); setAnswer(null) }} of={list.map((v) => [v, v])} />
        : <label class="row small">Which <input type="text" value={value} onChange={(e) => { setWhich(e.currentTarget.value.trim()); setAnswer(null) }} /></label>}
      <button class="btn" disabled={task.busy}>{task.busy ? 'Trying…' : 'Try it'}</button>
      <span class="small dim">A server tries it on a copy of the state. Nothing is changed.</span>
    </form>
    <ErrorBox error={task.error} />
    {answer && <div class="stack8">
      <p role="status">{sentence(answer)}</p>
      {answer.Groups.length > 0 && <Table1 label="Groups that would lack instances" head={['Job', 'Group', 'Without a place', 'Why']} rows={answer.Groups.map((g) => [<a href={href(to.job(g.Namespace, g.JobID))}>{g.JobID}</a>, g.Group, `${g.Lost} of ${g.Of}`, g.Why])} />}
      {answer.More > 0 && <p class="small dim">{plural(answer.More, 'more group')}.</p>}
    </div>}
  </Panel>
}

function sentence(a: WhatIf): string {
  if (a.Nodes === 0) return 'All of these nodes are down already.'
  const parts = [`${a.Moved} would move`, a.Lost ? `${a.Lost} would find no other place` : 'all that can move would find another place']
  if (a.Bound) parts.push(`${a.Bound} belong to jobs that run on every node`)
  if (a.Hidden) parts.push(`${a.Hidden} are of jobs that you may not see`)
  if (a.NotTried) parts.push(`${plural(a.NotTried, 'job was', 'jobs were')} not tried`)
  return `${plural(a.Nodes, 'node')} and ${plural(a.Allocs, 'allocation')}: ${parts.join(', ')}.`
}
