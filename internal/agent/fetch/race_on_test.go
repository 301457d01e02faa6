//go:build race

package fetch

const underRace = true
