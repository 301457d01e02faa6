// The definition of a job: the job file as it was submitted, and the job as JSON.
import { enc } from '../api'
import { highlight } from '../highlight'
import { useQuery } from '../live'
import { href, useParam } from '../router'
import { Copy, Empty, KV, Loading, Panel } from '../ui'
import { Choice } from './jobs'
import type { JobView } from './job'

interface Submission { Source: string; Format: string; VariableFlags: Record<string, string> | null; Variables: string }

export function Definition({ v }: { v: JobView }) {
  const [form, setForm] = useParam('form', 'source')
  const sub = useQuery<Submission>(`/v1/job/${enc(v.id)}/submission`, { namespace: v.ns, version: v.job.Version }, ['Job:' + v.id])
  const source = sub.data?.Source
  const showJSON = form === 'json' || (!source && !sub.loading)
  const json = JSON.stringify(v.job, null, 2)
  const flags = Object.entries(sub.data?.VariableFlags ?? {})
  return <div class="stack">
    <Panel title={<Choice label="Form" value={showJSON ? 'json' : 'source'} set={setForm} of={[['source', `As it was submitted${sub.data ? ' (' + sub.data.Format + ')' : ''}`], ['json', 'As JSON, with all defaults']]} />} actions={<><Copy text={showJSON ? json : source ?? ''} label="Copy the definition" /><a class="btn small" href={href(`/run?job=${enc(v.id)}&ns=${enc(v.ns)}`)}>Edit</a></>}>
      {sub.loading ? <Loading /> : <>{!source && form !== 'json' && <Empty title="The job file was not kept">It is shown as JSON instead.</Empty>}<pre class="codebox" tabIndex={0}>{highlight(showJSON ? json : source!)}</pre></>}
    </Panel>
    {!showJSON && (flags.length > 0 || sub.data?.Variables) && <Panel title="Variables of this submission">{flags.length > 0 && <KV of={flags} />}{sub.data?.Variables && <pre class="codebox short" tabIndex={0}>{highlight(sub.data.Variables)}</pre>}</Panel>}
    {v.job.Meta && Object.keys(v.job.Meta).length > 0 && <Panel title="Meta"><KV of={Object.entries(v.job.Meta)} /></Panel>}
  </div>
}
