package jobspec

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"berth/internal/admit"

	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"berth"
)

// seeds are the job files of the stories.
func seeds(f *testing.F, name string) {
	stories, _ := filepath.Glob("testdata/*.txt")
	for _, s := range stories {
		text, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files {
			if file.Name == name {
				f.Add(file.Data)
			}
		}
	}
}

// Whatever the text, a parse ends within its budget with a job or with
// problems; it never panics.
func fuzz(t *testing.T, text []byte) {
	// What counts is the work: on a busy machine the clock runs on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := worked(t)
	job, err := Parse(context.Background(), File{"fuzz.nomad", text}, Options{
		Strict: true,
		Vars:   []string{"a=1", "b=[1,2]"},
		Env:    []string{"NOMAD_VAR_c=x"},
		Files:  fstest.MapFS{"hello.txt": &fstest.MapFile{Data: []byte("hello ${x}")}},
	})
	if took := worked(t) - began; took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if err != nil {
		if k := berth.KindOf(err); k != berth.Invalid && k != berth.TooLarge || len(err.Error()) > 1<<20 {
			t.Errorf("kind %q of %v", k, err)
		}
		return
	}
	if ps := admit.Validate(job); len(ps) > 0 {
		t.Errorf("a parsed job is not valid: %v", ps)
	}
}

// worked is the processor time that this thread has had.
func worked(t *testing.T) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func FuzzHCL(f *testing.F) {
	seeds(f, "web.nomad")
	f.Fuzz(func(t *testing.T, text []byte) {
		if isJSON(text) {
			return
		}
		fuzz(t, text)
	})
}

func FuzzJSON(f *testing.F) {
	seeds(f, "job.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		if !isJSON(text) {
			return
		}
		fuzz(t, text)
	})
}

// FuzzExpression puts the text where an expression stands, which reaches the
// functions sooner.
func FuzzExpression(f *testing.F) {
	for _, e := range []string{
		`"${upper("x")}-${NOMAD_X}"`, `[for k, v in {a = 1}: "${k}${v}" if v > 0]`, `try(index([], 1), can(1/0))`,
		`format("%5.2f %q %v", 1.5, "a", [1])`, `cidrsubnet("10.0.0.0/8", 8, 2)`, `jsondecode("{\"a\": [1]}").a[*]`,
		`formatdate("YYYY", "2020-01-02T03:04:05Z")`, `regex_replace("a", "(b*)", "$1")`, `convert([1], set(string))`,
		`chunklist([1], 0)`, `setproduct([1], [])`, `range(1, 2, 0)`, `yamldecode("a: [*b]")`, `substr("é", -1, 5)`,
		"<<-E\n  %{ for x in [1] ~}\n  ${x}\n  %{ endfor }\nE", `slice([1], 0, 5)`, `zipmap(["a"], [])`, `bcrypt("", 4)`,
		`rsadecrypt("x", "y")`, `csvdecode("a\n1,2")`, `pow(0, -1)`, `log(0, 0)`, `parseint("", 0)`, `fileset("..", "**")`,
	} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, e string) { fuzz(t, []byte(expression(e))) })
}
