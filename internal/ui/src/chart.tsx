// Small charts of what something uses over time.
import { useEffect, useRef } from 'preact/hooks'
import { extraStyles } from './extra'
import { color, onTheme } from './theme'

export interface Series { name: string; unit: (n: number) => string; limit?: number }

export function Chart({ times, values, series, label }: { times: number[]; values: (number | null)[]; series: Series; label: string }) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<any>(null)
  const latest = useRef({ times, values, series })
  latest.current = { times, values, series }
  useEffect(() => {
    let over = false
    const make = async () => {
      const [{ default: uPlot }] = await Promise.all([import('uplot'), extraStyles()])
      if (over || !box.current) return
      plot.current?.destroy()
      const { times, values, series } = latest.current
      const axis = { stroke: color('dim'), grid: { stroke: color('line2'), width: 1 }, ticks: { show: false }, font: '11px ' + getComputedStyle(document.body).fontFamily }
      plot.current = new uPlot({
        width: box.current.clientWidth, height: 150, cursor: { y: false }, legend: { show: false }, padding: [8, 8, 0, 0],
        scales: { x: { range: (_u: any, min: number, max: number) => { const to = max || Date.now() / 1000; return [Math.min(min || to, to - 120), to] } }, y: { range: (_u: any, _min: number, max: number) => [0, Math.max(latest.current.series.limit ?? 0, max || 0) * 1.08 || 1] } },
        axes: [{ ...axis, size: 28, values: (_u: any, t: number[]) => t.map((x) => new Date(x * 1000).toLocaleTimeString('en-GB')), space: 90 }, { ...axis, size: 70, values: (_u: any, v: number[]) => v.map(series.unit) }],
        series: [{}, { label: series.name, stroke: color('fill'), fill: color('info-bg'), width: 1.5, points: { show: false } }],
        hooks: { draw: [(u: any) => {
          const limit = latest.current.series.limit
          if (!limit) return
          const y = Math.round(u.valToPos(limit, 'y', true)), c = u.ctx
          c.save(); c.strokeStyle = color('warn'); c.setLineDash([5, 4]); c.lineWidth = 1.5; c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke(); c.restore()
        }] },
      } as any, [times, values] as any, box.current)
    }
    make()
    const size = new ResizeObserver(() => { if (plot.current && box.current) plot.current.setSize({ width: box.current.clientWidth, height: 150 }) })
    size.observe(box.current!)
    const off = onTheme(make)
    return () => { over = true; off(); size.disconnect(); plot.current?.destroy(); plot.current = null }
  }, [])
  useEffect(() => { plot.current?.setData([times, values]) }, [times.length, times[times.length - 1]])
  return <div ref={box} class="chart" role="img" aria-label={label} />
}
