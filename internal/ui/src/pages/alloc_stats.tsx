// What an allocation uses, against what it was given.
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get } from '../api'
import { Chart } from '../chart'
import type { Alloc } from '../types'
import { Panel, bytes, mhz, mib } from '../ui'

interface Usage { Timestamp: number; ResourceUsage: { CpuStats: { TotalTicks: number; Percent: number } | null; MemoryStats: { RSS: number; Usage: number } | null } | null }

// useSamples asks every few seconds while the page is seen: figures of use are
// not events.
export function useSamples<T>(path: string, params: Record<string, string>, read: (t: T) => number[], every = 3000) {
  const data = useRef({ times: [] as number[], values: [] as number[][] })
  const [error, setError] = useState<ApiError | null>(null)
  const [, tick] = useState(0)
  useEffect(() => {
    const own = new AbortController()
    let t: ReturnType<typeof setTimeout>
    data.current = { times: [], values: [] }
    const ask = async () => {
      if (!document.hidden) try {
        const a = await get<T>(path, params, own.signal)
        const d = data.current
        d.times = [...d.times.slice(-199), Date.now() / 1000]
        read(a.data).forEach((v, i) => { d.values[i] = [...(d.values[i] ?? []).slice(-199), v] })
        setError(null)
        tick((n) => n + 1)
      } catch (e) { if (own.signal.aborted) return; setError(e as ApiError) }
      t = setTimeout(ask, every)
    }
    ask()
    return () => { own.abort(); clearTimeout(t) }
  }, [path])
  return { ...data.current, error }
}

export function Stats({ a }: { a: Alloc }) {
  const s = useSamples<Usage>('/v1/client/allocation/' + a.ID + '/stats', { namespace: a.Namespace }, (u) => [u.ResourceUsage?.CpuStats?.TotalTicks ?? 0, u.ResourceUsage?.MemoryStats?.RSS || u.ResourceUsage?.MemoryStats?.Usage || 0])
  const tasks = Object.values(a.AllocatedResources?.Tasks ?? {})
  const cpu = tasks.reduce((n, t) => n + t.Cpu.CpuShares, 0), memory = tasks.reduce((n, t) => n + Math.max(t.Memory.MemoryMB, t.Memory.MemoryMaxMB || 0), 0)
  if (s.error && s.times.length === 0) return <Panel title="Use"><p class="dim small">Figures of its use cannot be read: {s.error.message}</p></Panel>
  const last = (i: number) => s.values[i]?.[s.values[i].length - 1] ?? 0
  return <div class="cols">
    <Panel title={<>CPU <span class="dim small" style={{ fontWeight: 400 }}>{mhz(last(0))} used, {mhz(cpu)} asked</span></>}><Chart times={s.times} values={s.values[0] ?? []} series={{ name: 'CPU', unit: mhz, limit: cpu }} label={`CPU: ${mhz(last(0))} of ${mhz(cpu)}`} /></Panel>
    <Panel title={<>Memory <span class="dim small" style={{ fontWeight: 400 }}>{bytes(last(1))} used, at most {mib(memory)}</span></>}><Chart times={s.times} values={s.values[1] ?? []} series={{ name: 'Memory', unit: bytes, limit: memory * 1048576 }} label={`Memory: ${bytes(last(1))} of ${mib(memory)}`} /></Panel>
  </div>
}
