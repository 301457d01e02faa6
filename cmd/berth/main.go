// Command berth is the whole program: servers, agents and the command line.
package main

import (
	"os"

	"berth/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
