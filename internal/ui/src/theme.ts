// Light, dark, or as the system says.
export type Theme = 'light' | 'dark' | 'system'
const dark = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()
export function theme(): Theme { return (localStorage.getItem('theme') as Theme) || 'system' }
export function setTheme(t: Theme) { if (t === 'system') localStorage.removeItem('theme'); else localStorage.setItem('theme', t); apply() }
export function apply() {
  const t = theme()
  document.documentElement.dataset.theme = t === 'system' ? (dark.matches ? 'dark' : 'light') : t
  for (const l of [...listeners]) l()
}
export function onTheme(l: () => void) { listeners.add(l); return () => { listeners.delete(l) } }
// color is a colour of the theme, for canvases.
export function color(name: string) { return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim() }
dark.addEventListener('change', apply)
