package diag

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "berth/internal/onethread"
)

// Who follows a log gets what is written from then on, at a level of their own,
// with the attributes that loggers have; the main output stays as it is.
func TestFollow(t *testing.T) {
	l := &Log{}
	l.Level.Set(slog.LevelWarn)
	var main bytes.Buffer
	log := slog.New(l.Handler(slog.NewTextHandler(&main, l.Options(Format{})))).With("part", "x").WithGroup("g")
	log.Info("before")
	x := l.Follow(slog.LevelDebug, Format{JSON: true})
	log.Debug("low", "n", 1)
	log.Warn("high")
	<-x.Ready()
	if got := string(x.Take()); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"msg":"low","part":"x","g":{"n":1}`) || !strings.Contains(got, `"msg":"high"`) {
		t.Errorf("followed: %s", got)
	}
	if got := x.Take(); len(got) > 0 {
		t.Errorf("taken twice: %s", got)
	}
	x.Close()
	log.Debug("after")
	if got := x.Take(); len(got) > 0 {
		t.Errorf("followed after the end: %s", got)
	}
	if got := main.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=high part=x") {
		t.Errorf("main: %s", got)
	}
	if log.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("debug is enabled though nobody follows")
	}
}

// A reader that is too slow loses lines and is told how many.
func TestSlowFollower(t *testing.T) {
	l := &Log{}
	log := slog.New(l.Handler(slog.DiscardHandler))
	x := l.Follow(slog.LevelInfo, Format{})
	defer x.Close()
	long := strings.Repeat("x", 1<<10)
	for range 2000 {
		log.Info(long)
	}
	if got := x.Take(); len(got) < maxWaiting || len(got) > 2*maxWaiting {
		t.Errorf("%d bytes waited", len(got))
	}
	log.Info("again")
	if got := string(x.Take()); !strings.Contains(got, "lines of the log were left out") || !strings.Contains(got, "msg=again") {
		t.Errorf("then: %s", got)
	}
}

// A file is rotated by size and by age, lines stay whole, and old files go.
func TestFile(t *testing.T) {
	now := time.Unix(1000, 0)
	f := &File{Path: filepath.Join(t.TempDir(), "[logs]", "a.log"), MaxBytes: 10, MaxAge: time.Hour, MaxFiles: 2, now: func() time.Time { now = now.Add(time.Second); return now }}
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, line := range []string{"one\n", "two\n", "three\n", "a line that is too long\n", "four\n"} {
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	if _, err := f.Write([]byte("5\n")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range append(f.Rotated(), f.Path) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	if want := "a line that is too long\n|four\n|5\n"; strings.Join(got, "|") != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// The machine is described without the secrets of the environment.
func TestHost(t *testing.T) {
	t.Setenv("SOME_TOKEN", "canary")
	h := ReadHost()
	if h.Environment["SOME_TOKEN"] != Hidden || h.Environment["PATH"] == Hidden || h.OS == "" || len(h.Network) == 0 {
		t.Errorf("%+v", h)
	}
}

// Profiles are taken by name; an unknown name says which there are.
func TestProfile(t *testing.T) {
	if b, err := Profile(t.Context(), "goroutine", 0, 1, true); err != nil || !strings.Contains(string(b), "goroutine profile") {
		t.Errorf("%s %v", b, err)
	}
	if _, err := Profile(t.Context(), "none", 0, 0, false); !errors.Is(err, ErrUnknownProfile) || !strings.Contains(err.Error(), "goroutine, heap") {
		t.Error(err)
	}
	if b, err := Profile(t.Context(), "cmdline", 0, 0, false); err != nil || len(b) == 0 {
		t.Errorf("%s %v", b, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Profile(ctx, "trace", 1, 0, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Lines go to syslog with the facility that was asked for and the priority of their
// level.
func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	at, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	h, err := Syslog("unixgram", path, "local3", "berth", nil, false)
	if err != nil {
		t.Fatal(err)
	}
	slog.New(h).With("a", 1).Warn("hello")
	b := make([]byte, 1000)
	n, err := at.Read(b)
	// 19 is local3 and 4 is a warning.
	if got := string(b[:n]); err != nil || !strings.HasPrefix(got, "<156>") || !strings.Contains(got, "berth[") || !strings.Contains(got, "msg=hello a=1") {
		t.Errorf("%q %v", got, err)
	}
}
