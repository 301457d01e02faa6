import type { PageProps } from '../pages'
export default function Job({ place }: PageProps) { return <p>{place.parts[1]}</p> }
