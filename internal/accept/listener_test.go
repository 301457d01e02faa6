package accept

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	_ "berth/internal/onethread"
	"berth/internal/throttle"
)

func TestMain(m *testing.M) {
	if os.Getenv("ACCEPT_TEST_CHILD") != "" {
		if err := serveWithFewDescriptors(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func quiet(w io.Writer) *throttle.Log { return throttle.New(slog.New(slog.NewTextHandler(w, nil)), 1) }

// failing is a listener that returns its errors in turn, and after them
// connections.
type failing struct {
	errs  []error
	calls int
	ended chan struct{}
}

func (f *failing) Accept() (net.Conn, error) {
	select {
	case <-f.ended:
		return nil, net.ErrClosed
	default:
	}
	f.calls++
	if len(f.errs) == 0 {
		_, far := net.Pipe()
		return far, nil
	}
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, err
}
func (f *failing) Close() error   { close(f.ended); return nil }
func (f *failing) Addr() net.Addr { return &net.TCPAddr{} }

// Whatever accepting fails with, the listener goes on, and pauses in between.
func TestErrorsDoNotEndAListener(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{
		{"no descriptors in the process", syscall.EMFILE},
		{"no descriptors in the machine", syscall.ENFILE},
		{"no memory", syscall.ENOBUFS},
		{"a firewall", syscall.EPERM},
		{"an error without a number", errors.New("it broke")},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &failing{ended: make(chan struct{})}
				for range 100 {
					inner.errs = append(inner.errs, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", c.err)})
				}
				l := Listen(inner, quiet(t.Output()))
				began := time.Now()
				conn, err := l.Accept()
				if err != nil || conn == nil {
					t.Fatal("Accept returns", err)
				}
				if took := time.Since(began); took < 10*time.Second || took > 100*time.Second {
					t.Errorf("a hundred failures took %v: want a pause of up to a second after each", took)
				}
				l.Close()
				if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("after Close, Accept returns %v", err)
				}
			})
		})
	}
}

// Close ends a pause.
func TestCloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &failing{ended: make(chan struct{})}
		for range 100 {
			inner.errs = append(inner.errs, syscall.ENOBUFS)
		}
		l := Listen(inner, quiet(t.Output()))
		time.AfterFunc(10*time.Second, func() { l.Close() })
		began := time.Now()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || time.Since(began) != 10*time.Second {
			t.Errorf("Accept returns %v after %v", err, time.Since(began))
		}
	})
}

// A process without a free descriptor refuses callers at once, and serves them
// as soon as it has descriptors again.
func TestAProcessWithoutDescriptors(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "ACCEPT_TEST_CHILD=1")
	child.Stderr = t.Output()
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	next := func() string {
		t.Helper()
		if !said.Scan() {
			t.Fatal("the process has ended:", child.Wait())
		}
		return said.Text()
	}
	call := func() string {
		t.Helper()
		c, err := net.Dial("tcp", next())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b, _ := io.ReadAll(c)
		return string(b)
	}
	if got := call(); got != "hello" {
		t.Errorf("with descriptors left, the answer is %q", got)
	}
	for range 3 {
		io.WriteString(in, "full\n")
		if got := call(); got != "" {
			t.Errorf("without a descriptor left, the answer is %q", got)
		}
	}
	io.WriteString(in, "free\n")
	if got := call(); got != "hello" {
		t.Errorf("with descriptors again, the answer is %q", got)
	}
	in.Close()
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}

// serveWithFewDescriptors says its address whenever it can be called, and reads
// whether it should have descriptors left then.
func serveWithFewDescriptors() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l := Listen(ln, quiet(os.Stderr))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	fmt.Println(ln.Addr())
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}); err != nil {
		return err
	}
	var files []*os.File
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println(ln.Addr()) {
		for in.Text() == "full" {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			files = append(files, f)
		}
		for in.Text() == "free" && len(files) > 0 {
			files[0].Close()
			files = files[1:]
		}
	}
	return l.Close()
}
