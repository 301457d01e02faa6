// The audit log of the agent that serves the page: who asked for what, the newest
// first. The agent checks the hashes of what it shows.
import { session } from '../api'
import { useParam } from '../router'
import { PagedTable } from '../table'
import { Empty, Page, Panel, Status, Time } from '../ui'
import { Choice } from './jobs'

interface Entry {
  Line: number; Time: string; Stage: string; RequestID: string; User: string; AccessorID: string; Type: string; Method: string; Path: string; Operation: string
  Object?: Record<string, string> | null; Namespace: string; Address: string; Agent: string; Status: number; Error: string; Millis: number; Problem?: string
}
const spans: Record<string, number> = { '1h': 3600e3, '1d': 86400e3, '7d': 7 * 86400e3 }

export default function Audit() {
  const [user, setUser] = useParam('user')
  const [operation, setOperation] = useParam('operation')
  const [since, setSince] = useParam('since')
  const [stage, setStage] = useParam('stage')
  if (!session.may('management')) return <Page title="Audit"><Panel><Empty title="Your token may not read the audit log">That takes a management token.</Empty></Panel></Page>
  const from = spans[since] ? new Date(Math.floor(Date.now() / 60e3) * 60e3 - spans[since]).toISOString() : undefined
  return <Page title="Audit" fill command={'berth operator audit list' + (user ? ' -user ' + user : '') + (operation ? ` -operation '${operation}'` : '') + (since ? ' -since ' + ({ '1d': '24h', '7d': '168h' }[since] ?? since) : '')}>
    <div class="tools">
      <input type="search" aria-label="User" placeholder="User: name or accessor ID" value={user} onChange={(e) => setUser(e.currentTarget.value.trim())} />
      <input type="search" aria-label="Operation" placeholder="Operation, such as job.*" value={operation} onChange={(e) => setOperation(e.currentTarget.value.trim())} />
      <Choice label="Time" value={since} set={setSince} of={[['', 'Any time'], ['1h', 'The last hour'], ['1d', 'The last day'], ['7d', 'The last seven days']]} />
      <Choice label="Stage" value={stage} set={setStage} of={[['', 'Answered'], ['received', 'Received'], ['both', 'Received and answered']]} />
    </div>
    <PagedTable<Entry> label="Audit log" path="/v1/agent/audit" params={{ user: user || undefined, operation: operation || undefined, since: from, stage: stage || undefined }} watch={[]} rowKey={(e) => e.Line + e.Stage + (e.Problem ?? '')}
      empty={<Empty title="No entry">Nothing that was asked of this agent matches.</Empty>}
      columns={[
        { title: 'When', cell: (e) => (e.Problem ? '–' : <Time at={e.Time} />) },
        { title: 'Who', cell: (e) => (e.Problem ? '–' : <span title={e.AccessorID}>{e.User || e.Type}</span>) },
        { title: 'What', cell: (e) => (e.Problem ? <Status state="failed" text={'not whole: ' + e.Problem} /> : <span title={e.Method + ' ' + e.Path}>{e.Operation || e.Method + ' ' + e.Path}</span>) },
        { title: 'About', class: 'p2', cell: (e) => Object.entries(e.Object ?? {}).map(([k, v]) => `${k} ${v}`).join(', ') },
        { title: 'Result', cell: (e) => (e.Problem ? '' : e.Stage === 'received' ? 'received' : <Status state={e.Status >= 500 || e.Status === 0 ? 'failed' : e.Status >= 400 ? 'warning' : 'success'} text={`${e.Status || 'no answer'} ${e.Error}`.trim()} />) },
        { title: 'From', class: 'p2', cell: (e) => e.Address },
      ]} />
  </Page>
}
