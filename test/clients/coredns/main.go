// Command coredns is CoreDNS with its nomad plugin and no others: the full program
// has those of all clouds, which take long to build.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/nomad"
)

func main() { coremain.Run() }
