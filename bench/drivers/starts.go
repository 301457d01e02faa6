package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"berth/internal/agent/driver/docker/dockertest"
)

// beside is how many programs the plain comparisons start at a time.
const beside = 8

// measureStarts prints how many tasks a node starts in a second, and what the
// machine does without us.
func (b *bench) measureStarts() error {
	fmt.Printf("\n| tasks that end at once | started | per second |\n|---|---|---|\n")
	plain := func(what string, n int, args ...string) error {
		took, err := runAll(n, args)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		fmt.Printf("| %s, %d at a time | %d | %.0f |\n", what, beside, n, float64(n)/took.Seconds())
		return nil
	}
	if err := plain("plain fork of /bin/true", 10*b.starts, "/bin/true"); err != nil {
		return err
	}
	for _, d := range strings.Split(b.drivers, ",") {
		start := time.Now()
		if err := b.job(d, "batch", b.starts); err != nil {
			return err
		}
		if err := b.have(b.starts, "complete"); err != nil {
			return fmt.Errorf("starts of %s: %w", d, err)
		}
		took := time.Since(start)
		fmt.Printf("| %s, from the submission of a job to the last report | %d | %.0f |\n", d, b.starts, float64(b.starts)/took.Seconds())
		if err := b.purge(); err != nil {
			return err
		}
	}
	if b.engine == nil {
		return nil
	}
	return plain("docker run --rm", b.starts, "docker", "-H", b.engine.Host, "run", "--rm", "--network", "none", dockertest.Image, "exit", "0")
}

// runAll runs a command n times and returns how long that took.
func runAll(n int, args []string) (time.Duration, error) {
	var wg sync.WaitGroup
	work, failed := make(chan struct{}), make(chan error, n)
	start := time.Now()
	for range beside {
		wg.Go(func() {
			for range work {
				if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
					failed <- fmt.Errorf("%w: %s", err, out)
				}
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	took := time.Since(start)
	close(failed)
	return took, <-failed
}
