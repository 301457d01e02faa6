package limit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "berth/internal/onethread"
)

// A limit is logged from 80 % on and when it refuses, each once a minute at most.
func TestWhenLimitsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		LogTo(slog.New(slog.NewTextHandler(&out, nil)))
		defer LogTo(nil)
		l := &Limit{Info: Info{Name: "test", Of: "tests", Unit: Count, Default: 10, Key: "limits.test", Beyond: "nothing"}}
		for _, step := range []struct {
			what string
			do   func()
			want string // "": no line
		}{
			{"79 % is no news", func() { l.Use(79, 100) }, ""},
			{"80 % is", func() { l.Use(80, 100, "address", "a") }, `msg="a limit is nearly reached" limit=test used=80 allowed=100 address=a key=limits.test`},
			{"not twice in a minute", func() { l.Use(81, 100) }, ""},
			{"a refusal is its own line", func() { l.Refuse() }, `msg="a limit is reached" limit=test allowed=100 key=limits.test`},
			{"again after a minute", func() { time.Sleep(time.Minute); l.Use(100, 100) }, `used=100 allowed=100 key=limits.test more_like_it=1`},
			{"no limit is never near", func() { time.Sleep(time.Minute); l.Use(1000, 0) }, ""},
		} {
			out.Reset()
			step.do()
			if got := out.String(); step.want == "" && got != "" || !strings.Contains(got, step.want) {
				t.Errorf("%s: logged %q, want %q", step.what, got, step.want)
			}
		}
		if got := l.refused.Load(); got != 1 {
			t.Errorf("counted %d refusals, want 1", got)
		}
	})
}

// A peak is shown in two samples, so that two who take samples both see it.
func TestAPeakIsSeenTwice(t *testing.T) {
	l := Declare(Info{Name: "peak", Of: "tests", Unit: Bytes, Beyond: "nothing"})
	sample := func() Sample {
		for _, s := range Samples() {
			if s.Limit == l {
				return s
			}
		}
		t.Fatal("the limit is not listed")
		return Sample{}
	}
	l.Use(7, 10)
	l.Use(3, 10)
	for i, want := range []int64{7, 7, 0} {
		if got := sample(); got.Peak != want || got.Most != 10 {
			t.Errorf("sample %d: peak %d of %d, want %d of 10", i, got.Peak, got.Most, want)
		}
	}
}

func BenchmarkUse(b *testing.B) {
	l := &Limit{}
	for b.Loop() {
		l.Use(5, 100)
	}
}
