// Icons are drawn here, 16 by 16, in the colour of the text.
const paths: Record<string, string> = {
  overview: 'M2 2h5v6H2zM9 2h5v3H9zM9 7h5v7H9zM2 10h5v4H2z', jobs: 'M2 4l6-2.5 6 2.5-6 2.5zM2 8l6 2.5L14 8M2 12l6 2.5 6-2.5',
  run: 'M4 2.5v11l9-5.5z', nodes: 'M2 2.5h12v4H2zM2 9.5h12v4H2zM4.5 4.5h.1M4.5 11.5h.1', topology: 'M2 2h3v3H2zM6.5 2h3v3h-3zM11 2h3v3h-3zM2 6.5h3v3H2zM6.5 6.5h3v3h-3zM11 6.5h3v3h-3zM2 11h3v3H2zM6.5 11h3v3h-3z',
  evals: 'M2 4h8M2 8h12M2 12h6M12 2.5v3M10 10.5v3', deployments: 'M8 14V3M4 6.5L8 2.5l4 4M3 14h10', services: 'M8 2v4M8 10v4M2 8h4M10 8h4M6 6h4v4H6z',
  servers: 'M8 1.5l6 3.200v6.600L8 14.5l-6-3.200V4.700zM8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5z', streams: 'M3 4a1.5 1.5 0 1 1 0 .1M3 12a1.5 1.5 0 1 1 0 .1M13 8a1.5 1.5 0 1 1 0 .1M4.5 4.5L11.5 7.5M4.5 11.5l7-3',
  variables: 'M3 3h6l4 4v6H3zM9 3v4h4', volumes: 'M2 4c0-3 12-3 12 0v8c0 3-12 3-12 0zM2 4c0 3 12 3 12 0M2 8c0 3 12 3 12 0', access: 'M5.5 7V5a2.5 2.5 0 0 1 5 0v2M3 7h10v7H3zM8 10v1.5',
  audit: 'M3 2h10v12H3zM5.5 5h5M5.5 8h5M5.5 11h3', settings: 'M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5zM8 1.5v2M8 12.5v2M1.5 8h2M12.5 8h2M3.400 3.400l1.400 1.400M11.200 11.200l1.400 1.400M3.400 12.600l1.400-1.400M11.200 4.800l1.400-1.400',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3', check: 'M3 8.5l3.5 3.5L13 4.5', close: 'M3.5 3.5l9 9M12.5 3.5l-9 9', menu: 'M2 4h12M2 8h12M2 12h12', theme: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7z',
  file: 'M3.5 1.5h6l3 3v10h-9z', folder: 'M1.5 3.5h5l1.5 2h6.5v8h-13z', external: 'M6 3H3v10h10v-3M9 2.5h4.5V7M13 3L7.5 8.5', back: 'M10 3L5 8l5 5',
}
export function Icon({ name }: { name: string }) {
  return <svg viewBox="0 0 16 16" width="16" height="16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" aria-hidden="true"><path d={paths[name] ?? ''} /></svg>
}
