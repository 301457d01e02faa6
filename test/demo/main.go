// Command demo shows the life of two jobs with the real program, as a person
// would live it, with -cluster how three servers outlive one, with -stream a
// stream application and its recovery, or with -access how two teams share a cluster: every line that begins with $ is a
// command that was run, and what follows is what it printed. It checks what it
// shows, leaves nothing behind, and ends with an error if anything is not as it
// should be.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// main runs one of the four demos: an agent, a cluster, a stream application or
// access control.
func main() {
	berth := flag.String("berth", "bin/berth", "the program")
	hello := flag.String("hello", "bin/hello", "the built examples/hello")
	examples := flag.String("examples", "examples", "the folder of the examples")
	programs := flag.String("programs", "bin/stream", "the folder of the built examples/stream")
	several := flag.Bool("cluster", false, "show three servers instead")
	streams := flag.Bool("stream", false, "show a stream application instead")
	access := flag.Bool("access", false, "show two teams that share a cluster instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := newStage(ctx, os.Stdout, *berth, *hello, *programs, *examples)
	if err == nil {
		acts := s.acts()
		switch {
		case *several:
			acts = s.clusterActs()
		case *streams:
			acts = s.streamActs()
		case *access:
			acts = s.accessActs()
		}
		err = s.run(acts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// act is one part of a demonstration.
type act struct {
	title string
	play  func() error
}

// acts shows one agent and three jobs.
func (s *stage) acts() []act {
	return []act{
		{"One process is server and node", s.startAgent},
		{"A service of three instances, each on a port of its own", s.runService},
		{"A batch job that computes something and ends", s.runBatch},
		{"The service gets another greeting: its instances are replaced", s.updateService},
		{"The agent is killed (kill -9): the service goes on", s.killAgent},
		{"The agent is back: the same instances, nothing twice, nothing forgotten", s.restartAgent},
		{"A job that fits nowhere says why", s.runTooBig},
		{"Everything is stopped", s.stopAll},
	}
}

// patience is how long a demonstration may take before it counts as hanging.
const patience = 15 * time.Minute

// run plays the acts in order and cleans up.
func (s *stage) run(acts []act) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	s.ctx = ctx
	defer func() { err = s.clear(err) }()
	for _, a := range acts {
		fmt.Fprintf(s.out, "### %s\n\n", a.title)
		if err := a.play(); err != nil {
			return fmt.Errorf("%s: %w", a.title, err)
		}
	}
	return nil
}
