// Styles of the libraries that are loaded when they are first needed.
let done: Promise<void> | null = null
export function extraStyles(): Promise<void> {
  done ??= new Promise((ok) => {
    const l = document.createElement('link')
    l.rel = 'stylesheet'
    l.href = document.querySelector<HTMLLinkElement>('link[rel=stylesheet]')!.href.replace(/main\.css$/, 'extra.css')
    l.onload = l.onerror = () => ok()
    document.head.append(l)
  })
  return done
}
