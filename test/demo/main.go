// Command demo shows the life of two jobs with the real program, as a person
// would live it, or with -cluster how three servers outlive one: every line that begins with $ is a command that was run, and
// what follows is what it printed. It checks what it shows, leaves nothing
// behind, and ends with an error if anything is not as it should be.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the program")
	hello := flag.String("hello", "bin/hello", "the built examples/hello")
	examples := flag.String("examples", "examples", "the folder of the examples")
	several := flag.Bool("cluster", false, "show three servers instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *berth, *hello, *examples, *several); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// act is a part of a demonstration.
type act struct {
	title string
	play  func() error
}

// run is the whole demonstration.
func run(ctx context.Context, out io.Writer, berth, hello, examples string, several bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := newStage(ctx, out, berth, hello, examples)
	if err != nil {
		return err
	}
	defer func() { err = s.clear(err) }()
	acts := []act{
		{"One process is server and node", s.startAgent},
		{"A service of three instances, each on a port of its own", s.runService},
		{"A batch job that computes something and ends", s.runBatch},
		{"The service gets another greeting: its instances are replaced", s.updateService},
		{"The agent is killed (kill -9): the service goes on", s.killAgent},
		{"The agent is back: the same instances, nothing twice, nothing forgotten", s.restartAgent},
		{"A job that fits nowhere says why", s.runTooBig},
		{"Everything is stopped", s.stopAll},
	}
	if several {
		acts = s.clusterActs()
	}
	for _, a := range acts {
		fmt.Fprintf(out, "### %s\n\n", a.title)
		if err := a.play(); err != nil {
			return fmt.Errorf("%s: %w", a.title, err)
		}
	}
	return nil
}
