package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"regexp"
	"testing"
)

// The files in dist are those that the sources give.
func TestDistIsBuiltFromTheSources(t *testing.T) {
	want, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	have := os.DirFS("../dist")
	names, err := fs.Glob(have, "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if want[name] == nil {
			t.Errorf("dist/%s is not built from the sources: run make ui", name)
		}
	}
	for name, b := range want {
		if got, err := fs.ReadFile(have, name); err != nil || !bytes.Equal(got, b) {
			t.Errorf("dist/%s is not what the sources give (%v): run make ui", name, err)
		}
	}
}

// mostFirst is how many bytes the first page may have, compressed.
const mostFirst = 250 << 10

var imported = regexp.MustCompile(`from"\./([\w.-]+\.js)"|import"\./([\w.-]+\.js)"`)

// What a browser loads before it shows something is small.
func TestFirstPageIsSmall(t *testing.T) {
	files, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	total, todo, seen := 0, []string{"index.html", "main.css", "main.js"}, map[string]bool{}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		b, ok := files[name]
		if !ok {
			t.Fatalf("%s is missing", name)
		}
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		z.Write(b)
		z.Close()
		total += out.Len()
		for _, m := range imported.FindAllSubmatch(b, -1) {
			todo = append(todo, string(m[1])+string(m[2]))
		}
	}
	t.Logf("the first page has %d bytes, compressed", total)
	if total > mostFirst {
		t.Errorf("the first page has %d bytes, compressed: want at most %d", total, mostFirst)
	}
}
