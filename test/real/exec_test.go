package real

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"

	"berth/internal/eventually"
)

// A command runs beside a task, as its user and in its directory, through an
// agent that has neither the task nor the servers' state.
func TestCommandsBesideTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("web.nomad", `job "web" {
  group "g" {
    task "app" {
      driver = "raw_exec"
      env { WORD = "hello" }
      config {
        command = "/bin/sleep"
        args    = ["1000"]
      }
    }
  }
}`))
	a.running("web")
	id := a.allocs("web")[0].ID
	if got := a.good("alloc", "exec", id, "/bin/sh", "-c", `echo $WORD; pwd`); !strings.HasPrefix(got, "hello\n/") || !strings.HasSuffix(got, id+"/app\n") {
		t.Errorf("%q", got)
	}
	r := a.berth("exec", "-i=false", "-job", "web", "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
	if r.Code != 7 || r.Out != "out\n" || r.Err != "err\n" {
		t.Errorf("%v", r)
	}
	for _, c := range [][]string{{"/bin/none"}, {"none"}} {
		if r := a.berth(append([]string{"alloc", "exec", "-task", "app", id}, c...)...); r.Code == 0 || !strings.Contains(r.Err, "none") {
			t.Errorf("%v", r)
		}
	}
	if r := a.berth("alloc", "exec", "-task", "other", id, "/bin/true"); r.Code == 0 || !strings.Contains(r.Err, `no task "other"`) {
		t.Errorf("%v", r)
	}
	// Nomad's Go client.
	c := a.nomad()
	it, _, err := c.Allocations().Info(id, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	var out, errs bytes.Buffer
	big := strings.Repeat("0123456789abcdef", 40_000)
	code, err := c.Allocations().Exec(ctx, it, "app", false, []string{"/bin/sh", "-c", "cat; exit 3"}, strings.NewReader(big), &out, &errs, nil, nil)
	if err != nil || code != 3 || out.String() != big {
		t.Errorf("%d %v, %d bytes, %s", code, err, out.Len(), errs.String())
	}
	// A terminal has a size, and what is typed is a line.
	sizes := make(chan nomad.TerminalSize, 1)
	sizes <- nomad.TerminalSize{Height: 33, Width: 77}
	typed, typing := io.Pipe()
	defer typing.Close()
	out.Reset()
	go fmt.Fprint(typing, "until [ \"$(stty size)\" = '33 77' ]; do :; done; tty >&2; exit 5\n")
	code, err = c.Allocations().Exec(ctx, it, "app", true, []string{"/bin/sh"}, typed, &out, &errs, sizes, nil)
	if err != nil || code != 5 || !strings.Contains(out.String(), "/dev/pts/") {
		t.Errorf("%d %v %q", code, err, out.String())
	}
	if _, err = c.Allocations().Exec(ctx, it, "app", false, []string{"/bin/none"}, strings.NewReader(""), &out, &errs, nil, nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
	// It ends with its task.
	told, telling := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Allocations().Exec(ctx, it, "app", false, []string{"/bin/sh", "-c", "echo runs; sleep 1000"}, strings.NewReader(""), telling, io.Discard, nil, nil)
		ended <- err
	}()
	if b := make([]byte, 5); true {
		if _, err := io.ReadFull(told, b); err != nil {
			t.Fatal(err)
		}
	}
	a.good("job", "stop", "-detach", "web")
	<-ended // with the code of the kill, or with an error
}

// A port of a task is reached through the agent, by many connections.
func TestPortsAreForwarded(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("the task needs python3, which make deps installs")
	}
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("echo.nomad", `job "echo" {
  group "g" {
    network {
      port "talk" {}
    }
    task "app" {
      driver = "raw_exec"
      config {
        command = "python3"
        args = ["-c", <<EOT
import os, socketserver
class H(socketserver.StreamRequestHandler):
    def handle(self):
        data = self.rfile.read()
        self.wfile.write(b"got %d" % len(data))
class S(socketserver.ThreadingTCPServer):
    request_queue_size = 64 # 5 without the line: too few for all of them at a time
S(("127.0.0.1", int(os.environ["NOMAD_PORT_talk"])), H).serve_forever()
EOT
        ]
      }
    }
  }
}`))
	a.running("echo")
	id := a.allocs("echo")[0].ID
	local := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	forwarding, err := w.Command(ctx, w.Binary, []string{"BERTH_ADDR=" + a.addr}, "alloc", "port-forward", id, fmt.Sprint(local, ":talk"))
	if err != nil {
		t.Fatal(err)
	}
	defer forwarding.Wait()
	defer cancel()
	addr := fmt.Sprint("127.0.0.1:", local)
	say := func(size int) (string, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := conn.Write(make([]byte, size)); err != nil {
			return "", err
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return "", err
		}
		b, err := io.ReadAll(conn)
		return string(b), err
	}
	w.until("the task listens", func() string {
		got, err := say(1)
		if got != "got 1" {
			return fmt.Sprint(got, err)
		}
		return ""
	})
	got := make(chan string, 20)
	for i := range cap(got) {
		go func() {
			s, err := say(100_000 + i)
			if s != fmt.Sprint("got ", 100_000+i) {
				got <- fmt.Sprintf("%d: %q %v", i, s, err)
				return
			}
			got <- ""
		}()
	}
	for range cap(got) {
		if s := <-got; s != "" {
			t.Errorf("%s; the command said:\n%s", s, forwarding.Out())
		}
	}
}
