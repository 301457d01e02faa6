// Command plugin is a CSI plugin whose volumes are directories. See package disk,
// and docs/csi.md for how to run it.
package main

import (
	"flag"
	"fmt"
	"os"

	"berth/examples/csi/disk"
)

func main() {
	p := &disk.Plugin{}
	flag.StringVar(&p.Root, "root", "", "the `directory` with the volumes; all nodes must share it")
	flag.StringVar(&p.Node, "node", "", "the `name` of this node")
	flag.StringVar(&p.Zone, "zone", "", "the `zone` of this node, if volumes can be reached from one zone only")
	flag.StringVar(&p.Key, "key", "", "the `secret` that callers must give to change something")
	flag.Parse()
	if p.Root == "" || p.Node == "" {
		fmt.Fprintln(os.Stderr, "plugin: -root and -node must be given")
		os.Exit(2)
	}
	if err := p.Serve(os.Getenv("CSI_ENDPOINT")); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}
