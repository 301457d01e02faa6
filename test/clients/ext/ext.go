// Package ext takes the place of a module of Traefik's repository that no proxy
// serves: extensions of the configuration, of which there are none.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends a router.
type Router struct{}
