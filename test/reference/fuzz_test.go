package reference

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fuzzFunc   = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	fuzzTarget = regexp.MustCompile(`\./[\w/]+:Fuzz\w+`)
)

// "make fuzz" runs every fuzz target that there is.
func TestEveryFuzzTargetIsRun(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	listed := fuzzTarget.FindAllString(string(makefile), -1)
	var have []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			have = append(have, "./"+filepath.ToSlash(dir)+":"+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(have) < 40 {
		t.Errorf("found %d fuzz targets", len(have))
	}
	for _, x := range have {
		if !slices.Contains(listed, x) {
			t.Errorf("the Makefile does not run %s", x)
		}
	}
	for _, x := range listed {
		if !slices.Contains(have, x) {
			t.Errorf("the Makefile runs %s, which is not there", x)
		}
	}
}
