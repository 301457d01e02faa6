package real

import (
	"io"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// People read a task's files, by command line and with Nomad's Go client; its
// secrets they do not.
func TestFilesOfTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent("one", both)
	a.joined()
	a.good("job", "run", "-detach", w.file("web.nomad", `job "web" {
  type = "batch"
  group "g" {
    task "app" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "printf 'one\ntwo\n' > local/app.log; echo hidden > secrets/key; ln -s /etc/passwd local/link; mkdir local/d"]
      }
    }
  }
}`))
	al := a.end("web")
	for path, want := range map[string]string{
		"/": "app/", "app": "secrets/", "app/local": "app.log", "app/local/app.log": "one\ntwo\n", "../app/local/app.log": "two",
	} {
		w.holds(a.good("alloc", "fs", al.ID, path), want)
	}
	w.holds(a.good("fs", "-stat", al.ID, "app/local/app.log"), "Content Type", "8 B", "text/plain")
	w.holds(a.good("fs", "-tail", "-n", "1", "-f", al.ID, "app/local/app.log"), "two\n")
	for path, want := range map[string]string{
		"app/secrets/key": "which only the task may read", "app/local/link": "not a regular file", "app/nothing": "there is no file", "../../etc/passwd": "there is no file",
		"app/local/link/x": "is not a directory",
	} {
		r := a.berth("alloc", "fs", al.ID, path)
		if r.Code == 0 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %d %s%s", path, r.Code, r.Out, r.Err)
		}
	}
	c := a.nomad()
	it, _, err := c.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := c.AllocFS().List(it, "app/local", nil)
	if err != nil || len(list) != 3 || list[0].Name != "app.log" || list[0].Size != 8 || !list[1].IsDir {
		t.Errorf("%+v %v", list, err)
	}
	if st, _, err := c.AllocFS().Stat(it, "app/local/app.log", nil); err != nil || st.Size != 8 || st.FileMode != "-rw-r--r--" {
		t.Errorf("%+v %v", st, err)
	}
	text := func(r io.ReadCloser, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := text(c.AllocFS().Cat(it, "app/local/app.log", nil)); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
	if got := text(c.AllocFS().ReadAt(it, "app/local/app.log", 4, 2, nil)); got != "tw" {
		t.Errorf("%q", got)
	}
	frames, errs := c.AllocFS().Stream(it, "app/local/app.log", nomad.OriginEnd, 4, nil, nil)
	select {
	case f := <-frames:
		if string(f.Data) != "two\n" || f.Offset != 4 {
			t.Errorf("%+v", f)
		}
	case err := <-errs:
		t.Error(err)
	}
	// The reader that the client makes of frames.
	end := make(chan struct{})
	frames, errs = c.AllocFS().Stream(it, "app/local/app.log", nomad.OriginStart, 0, end, nil)
	reader := nomad.NewFrameReader(frames, errs, end)
	var got [8]byte
	if _, err := io.ReadFull(reader, got[:]); err != nil || string(got[:]) != "one\ntwo\n" || reader.Offset() >= len(got) {
		t.Errorf("%q from %d, %v", got, reader.Offset(), err)
	}
	// Where nothing more is written, a reader that does not wait returns.
	reader.SetUnblockTime(time.Millisecond)
	if n, err := reader.Read(got[:]); n != 0 || err != nil && err != io.EOF {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

// nomad returns Nomad's Go client for the agent.
func (a *agent) nomad() *nomad.Client {
	a.w.t.Helper()
	c, err := nomad.NewClient(&nomad.Config{Address: a.addr})
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.w.t.Cleanup(c.Close)
	return c
}
