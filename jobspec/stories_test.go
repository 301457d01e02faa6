package jobspec

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"berth/internal/decode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"berth"
)

var rewrite = flag.Bool("rewrite", false, "rewrite what the stories in testdata expect")

// A story is a txtar file. The comment says what it shows; job.nomad (or
// job.json) is the job file. Beside it there can be
//
//	options     lines: var name=value, env KEY=value, lax, tree
//	*.vars      variable files, in order
//	files/…     what file functions may read
//	want        the job as JSON without its zero values, or the error
//
// With the option tree, want is the tree before defaults and validation.
func TestStories(t *testing.T) {
	stories, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(stories) < 25 {
		t.Fatalf("%d stories: %v", len(stories), err)
	}
	for _, name := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) { story(t, name) })
	}
}

func story(t *testing.T, name string) {
	arc, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var (
		file  File
		o     = Options{Strict: true}
		files = fstest.MapFS{}
		tree  bool
		want  *txtar.File
	)
	for i := range arc.Files {
		f := &arc.Files[i]
		inner, isFile := strings.CutPrefix(f.Name, "files/")
		switch {
		case f.Name == "want":
			want = f
		case f.Name == "options":
			tree = options(t, &o, f.Data)
		case isFile:
			files[inner] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
			o.Files = fs.FS(files)
		case strings.HasSuffix(f.Name, ".vars"):
			o.VarFiles = append(o.VarFiles, File{f.Name, f.Data})
		default:
			file = File{f.Name, f.Data}
		}
	}
	if want == nil {
		arc.Files = append(arc.Files, txtar.File{Name: "want"})
		want = &arc.Files[len(arc.Files)-1]
	}
	got := outcome(t, file, o, tree)
	if *rewrite {
		want.Data = got
		if err := os.WriteFile(name, txtar.Format(arc), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want.Data), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func options(t *testing.T, o *Options, text []byte) (tree bool) {
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "var":
			o.Vars = append(o.Vars, value)
		case "env":
			o.Env = append(o.Env, value)
		case "lax":
			o.Strict = false
		case "tree":
			tree = true
		default:
			t.Fatalf("no option %q", key)
		}
	}
	return tree
}

func outcome(t *testing.T, file File, o Options, tree bool) []byte {
	var v any
	var err error
	if tree {
		v, err = ParseTree(context.Background(), file, o)
	} else {
		v, err = Parse(context.Background(), file, o)
	}
	if err != nil {
		if k := berth.KindOf(err); k != berth.Invalid {
			t.Errorf("kind %q of %v", k, err)
		}
		return []byte(err.Error() + "\n")
	}
	b, err := json.Marshal(numbersAsNumbers(v))
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		t.Fatal(err)
	}
	if !tree {
		plain = withoutZeros(plain)
	}
	b, err = json.MarshalIndent(plain, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	b = []byte(strings.NewReplacer("\\u003c", "<", "\\u003e", ">", "\\u0026", "&").Replace(string(b)))
	return append(b, '\n')
}

func numbersAsNumbers(v any) any {
	switch v := v.(type) {
	case decode.Number:
		return json.Number(v)
	case []any:
		for i := range v {
			v[i] = numbersAsNumbers(v[i])
		}
	case decode.Tree:
		for k := range v {
			v[k] = numbersAsNumbers(v[k])
		}
	}
	return v
}

// withoutZeros leaves out of objects what is zero, so that a story shows what
// it is about.
func withoutZeros(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = withoutZeros(v[i])
		}
	case map[string]any:
		for k, x := range v {
			x = withoutZeros(x)
			v[k] = x
			switch x := x.(type) {
			case nil:
				delete(v, k)
			case bool:
				if !x {
					delete(v, k)
				}
			case string:
				if x == "" {
					delete(v, k)
				}
			case json.Number:
				if x == "0" {
					delete(v, k)
				}
			case []any:
				if len(x) == 0 {
					delete(v, k)
				}
			case map[string]any:
				if len(x) == 0 {
					delete(v, k)
				}
			}
		}
	}
	return v
}
