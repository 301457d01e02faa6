package jobspec

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"berth"
)

// uncommon are blocks that typical job files need not have: those of other systems,
// of before groups had networks, of Berth alone, and some that few know.
var uncommon = strings.Fields("connect consul vault multiregion tagged_addresses canary_meta cni template_file stream depends_on schedule reserved_ports link header headers " +
	"application connectivity export host_pool import input output parallel_region pe placement properties submission weights")

// testdata/typical holds job files as people publish them. Each is accepted with the
// defaults of its variables, by strict rules, and each common block is in two of
// them at least.
func TestTypicalJobFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/typical/*.nomad.hcl")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v; want 40", len(files), err)
	}
	in := map[string]int{} // how many files have a block
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if formatted, err := Format(File{Name: name, Text: text}); err != nil || string(formatted) != string(text) {
				t.Errorf("it is not formatted: %v", err)
			}
			j, err := Parse(t.Context(), File{Name: filepath.Base(name), Text: text}, Options{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if id := strings.TrimSuffix(filepath.Base(name), ".nomad.hcl"); string(j.ID) != id {
				t.Errorf("the job of %s is %q", filepath.Base(name), j.ID)
			}
			tree, problems := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
			if problems.HasErrors() {
				t.Fatal(problems)
			}
			has := map[string]bool{}
			blocksOf(tree.Body.(*hclsyntax.Body), has)
			for block := range has {
				in[block]++
			}
		})
	}
	common := map[string]bool{"variable": true, "locals": true, "dynamic": true, "validation": true, "content": true}
	blocksKnown(reflect.TypeFor[berth.Job](), common, map[reflect.Type]bool{})
	rare := 0
	for _, block := range slices.Sorted(maps.Keys(common)) {
		if in[block] < 2 {
			rare++
			t.Errorf("the block %s is in %d files", block, in[block])
		}
	}
	t.Logf("%d files, %d different blocks, %d of them in fewer than two", len(files), len(in), rare)
}

// blocksOf notes the names of blocks, but not those that drivers and autoscalers
// define.
func blocksOf(b *hclsyntax.Body, has map[string]bool) {
	for _, x := range b.Blocks {
		has[x.Type] = true
		if x.Type == "dynamic" && len(x.Labels) == 1 {
			has[x.Labels[0]] = true
		}
		if x.Type != "config" && x.Type != "policy" {
			blocksOf(x.Body, has)
		}
	}
}

// blocksKnown notes the names of blocks that the language has below a struct.
func blocksKnown(t reflect.Type, into map[string]bool, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	for name, f := range shapeOf(t).fields {
		if f.form == attribute || slices.Contains(uncommon, name) {
			continue
		}
		into[name] = true
		if f.elem != nil {
			blocksKnown(f.elem, into, seen)
		}
	}
}
