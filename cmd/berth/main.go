// Command berth is the whole program: servers, agents and the command line.
package main

import (
	"os"

	"berth/internal/cli"
)

// main exits with the code that cli.Main returns.
func main() { os.Exit(cli.Main(os.Args)) }
