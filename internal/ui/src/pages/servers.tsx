// Servers: who leads, who follows and how far behind, and what autopilot thinks.
import { useState } from 'preact/hooks'
import { headers, session, url } from '../api'
import { useQuery } from '../live'
import { Empty, ErrorBox, KV, Loading, Page, Panel, Status, Table1, plural, span, toast } from '../ui'
interface Health { Healthy: boolean; FailureTolerance: number; Leader: string; Voters: string[] | null; Servers: { ID: string; Name: string; Address: string; SerfStatus: string; Version: string; Leader: boolean; Voter: boolean; Healthy: boolean; LastContact: string | number; LastTerm: number; LastIndex: number; StableSince: string }[] | null }
interface Members { Members: { Name: string; Addr: string; Port: number; Status: string; Tags: Record<string, string> | null }[] | null }
export default function Servers() {
  const h = useQuery<Health>(session.may('operator:read') ? '/v1/operator/autopilot/health' : null, {}, ['Node'])
  const m = useQuery<Members>(session.may('node:read') ? '/v1/agent/members' : null, {}, ['Node'])
  const keys = useQuery<{ KeyID: string; State: string; Algorithm: string }[]>(session.may('operator:read') ? '/v1/operator/keyring/keys' : null, {}, [])
  const sched = useQuery<any>(session.may('operator:read') ? '/v1/operator/scheduler/configuration' : null, {}, [])
  const [busy, setBusy] = useState(false)
  const snapshot = async () => {
    setBusy(true)
    try {
      const r = await fetch(url('/v1/operator/snapshot'), { headers: headers() })
      if (!r.ok) throw new Error(await r.text())
      const a = document.createElement('a')
      a.href = URL.createObjectURL(await r.blob())
      a.download = `berth-${new Date().toISOString().slice(0, 19).replace(/:/g, '')}.snap`
      a.click()
      URL.revokeObjectURL(a.href)
    } catch (e) { toast((e as Error).message, 'bad') } finally { setBusy(false) }
  }
  const list = h.data?.Servers ?? []
  const last = Math.max(0, ...list.map((s) => s.LastIndex))
  const leader = list.find((s) => s.Leader)
  const c = sched.data?.SchedulerConfig ?? sched.data
  return <Page title="Servers" command="berth server members && berth operator autopilot health" answer={h.data ? `${leader ? `${leader.Name} leads` : 'No server leads'}; ${plural(h.data.FailureTolerance, 'server may', 'servers may')} fail without harm.${h.data.Healthy ? '' : ' Not all servers are healthy.'}` : undefined}
    actions={session.may('management') ? <button class="btn" disabled={busy} onClick={snapshot}>{busy ? 'Saving…' : 'Save a snapshot'}</button> : undefined}>
    <ErrorBox error={h.error} retry={h.refresh} />
    {h.loading && session.may('operator:read') && <Loading what="the servers" />}
    {!session.may('operator:read') && <div class="note warn">Your token lacks operator:read, so Raft and autopilot are not shown.</div>}
    {list.length > 0 && <Panel title="Raft" flush><Table1 label="Servers" head={['Server', 'Role', 'State', 'Address', 'Term', 'Index', 'Behind', 'Last contact']} classes={['', '', '', 'p2', 'num p2', 'num p2', 'num', 'num p2']} rows={list.map((s) => [<b>{s.Name}</b>, s.Leader ? 'leader' : s.Voter ? 'follower' : 'non-voter', <Status state={s.Healthy ? 'healthy' : s.SerfStatus === 'left' ? 'left' : 'unhealthy'} />, s.Address, s.LastTerm, s.LastIndex.toLocaleString('en'), (last - s.LastIndex).toLocaleString('en'), typeof s.LastContact === 'number' ? span(s.LastContact / 1e6) : s.LastContact])} /></Panel>}
    {(m.data?.Members ?? []).length > 0 && <Panel title="Members of the gossip" flush><Table1 label="Members" head={['Name', 'State', 'Address', 'Region', 'Version']} rows={m.data!.Members!.map((x) => [x.Name, <Status state={x.Status} />, `${x.Addr}:${x.Port}`, x.Tags?.region ?? '', x.Tags?.build ?? ''])} /></Panel>}
    <div class="cols">
      {c && <Panel title="Scheduler"><KV of={[['Algorithm', c.SchedulerAlgorithm], ['Memory oversubscription', c.MemoryOversubscriptionEnabled ? 'on' : 'off'], ['Preemption', Object.entries(c.PreemptionConfig ?? {}).filter(([, v]) => v === true).map(([k]) => k.replace('SchedulerEnabled', '').toLowerCase()).join(', ') || 'off'], ['Jobs may be registered', c.RejectJobRegistration ? 'no' : 'yes'], ['Evaluations', c.PauseEvalBroker ? 'paused' : 'processed']]} /></Panel>}
      {keys.data && <Panel title="Root keys" flush>{keys.data.length === 0 ? <Empty title="None yet" /> : <Table1 label="Root keys" head={['Key', 'State']} rows={keys.data.map((k) => [<span class="mono">{k.KeyID}</span>, k.State])} />}</Panel>}
    </div>
  </Page>
}
