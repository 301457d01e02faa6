// The difference between two versions of a job, as the server computes it.
import type { FieldDiff, JobDiff, ObjectDiff } from './types'

const signs: Record<string, [string, string]> = { Added: ['+', 'add'], Deleted: ['−', 'del'], Edited: ['~', 'edit'], None: [' ', ''] }

function Line({ type, depth, text, note }: { type: string; depth: number; text: string; note?: string }) {
  const [sign, c] = signs[type] ?? signs.None
  return <div class={'dl ' + c}><span class="sign" aria-label={type.toLowerCase()}>{sign}</span><span class="wrap" style={{ paddingLeft: depth * 16 + 'px' }}>{text}{note && <span class="dim"> {note}</span>}</span></div>
}
function Field({ f, depth }: { f: FieldDiff; depth: number }) {
  const note = f.Annotations?.length ? '(' + f.Annotations.join(', ') + ')' : undefined
  const text = f.Type === 'Added' ? `${f.Name}: ${JSON.stringify(f.New)}` : f.Type === 'Deleted' ? `${f.Name}: ${JSON.stringify(f.Old)}` : f.Type === 'Edited' ? `${f.Name}: ${JSON.stringify(f.Old)} → ${JSON.stringify(f.New)}` : `${f.Name}: ${JSON.stringify(f.New)}`
  return <Line type={f.Type} depth={depth} text={text} note={note} />
}
function Inner({ o, depth }: { o: ObjectDiff; depth: number }) {
  return <>{(o.Fields ?? []).filter((f) => f.Type !== 'None').map((f) => <Field key={f.Name} f={f} depth={depth} />)}
    {(o.Objects ?? []).filter((x) => x.Type !== 'None').map((x, i) => <div key={x.Name + i}><Line type={x.Type} depth={depth} text={x.Name + ' {'} /><Inner o={x} depth={depth + 1} /><Line type={x.Type} depth={depth} text="}" /></div>)}</>
}
export function Diff({ diff }: { diff: JobDiff | null | undefined }) {
  if (!diff) return <p class="dim">This is the first version.</p>
  const groups = (diff.TaskGroups ?? []).filter((g) => g.Type !== 'None' || (g.Tasks ?? []).some((t) => t.Type !== 'None'))
  if (diff.Type === 'None' && groups.length === 0) return <p class="dim">Nothing differs.</p>
  return <div class="diff" tabIndex={0} role="region" aria-label="Difference">
    <Line type={diff.Type} depth={0} text={`job "${diff.ID}"`} /><Inner o={{ ...diff, Name: diff.ID }} depth={1} />
    {groups.map((g) => <div key={g.Name}>
      <Line type={g.Type} depth={1} text={`group "${g.Name}"`} note={g.Updates ? '(' + Object.entries(g.Updates).map(([k, n]) => `${n} ${k}`).join(', ') + ')' : undefined} /><Inner o={g} depth={2} />
      {(g.Tasks ?? []).filter((t) => t.Type !== 'None').map((t) => <div key={t.Name}><Line type={t.Type} depth={2} text={`task "${t.Name}"`} note={t.Annotations?.length ? '(' + t.Annotations.join(', ') + ')' : undefined} /><Inner o={t} depth={3} /></div>)}
    </div>)}
  </div>
}
