package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipesWord makes Main the helper that takes from two named pipes what a task
// prints, and prints it to its own outputs, which are kept as a task's.
const pipesWord = "@pipes"

// The variables of the helper's environment that name the pipes.
const (
	pipesOut = "BERTH_STDOUT"
	pipesErr = "BERTH_STDERR"
)

// past is a time that is over.
var past = time.Unix(1, 0)

// Marked returns the environment of a task's process that something else starts:
// with the marks by which the supervisor finds it.
func (d *Dir) Marked(env []string, task string) []string { return markedEnv(env, d.alloc, task) }

// StartPipes starts as a launch the helper that keeps what comes through the pipes
// out and err, files in the control directory. When it is stopped it takes what is
// in them and ends, and with it all that bears the task's marks.
func (d *Dir) StartPipes(ctx context.Context, task string, number uint64, out, err string, st Start) (*Launch, error) {
	st.Command, st.Args = d.command[0], append(append([]string(nil), d.command[1:]...), pipesWord)
	dir := d.control.Path()
	st.Env = []string{pipesOut + "=" + filepath.Join(dir, out), pipesErr + "=" + filepath.Join(dir, err), "GOMAXPROCS=1"}
	return d.Start(ctx, task, number, st)
}

// copyPipes is the helper.
func copyPipes() int {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT)
	signal.Ignore(unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	var wait sync.WaitGroup
	ends := make(chan struct{})
	var failed error
	for name, to := range map[string]*os.File{pipesOut: os.Stdout, pipesErr: os.Stderr} {
		// Open for both, so that it has no end while the task's own is closed.
		fd, err := unix.Open(os.Getenv(name), unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("open %s: %w", os.Getenv(name), err))
			continue
		}
		f := os.NewFile(uintptr(fd), name)
		wait.Go(func() {
			copied := make(chan struct{})
			go func() {
				_, _ = io.Copy(to, f)
				close(copied)
			}()
			<-ends
			// What is in the pipe was printed before the order to end.
			_ = f.SetReadDeadline(past)
			<-copied
			drain(fd, to)
			_ = f.Close()
		})
	}
	if failed != nil {
		fmt.Fprintln(os.Stderr, failed)
		return 1
	}
	<-stop
	close(ends)
	wait.Wait()
	return 0
}

// drain copies what a pipe holds now.
func drain(fd int, to *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n <= 0 {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
