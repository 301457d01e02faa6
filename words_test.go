package berth_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// badWords are phrases that docs/glossary.md replaces, and what to write
// instead. They may not stand in comments and texts of the product, nor in docs.
var badWords = []struct {
	find    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(is|are) wanted\b`), "must be …, got …"},
	{regexp.MustCompile(`: (%q|%s|%v|"[^"]*") is none\b|is none[;:,]`), `unknown kind "x": want a, b or c`},
	{regexp.MustCompile(`\ballowed (is|are)\b`), "must be …; want …"},
	{regexp.MustCompile(`\banew\b`), "again"},
	{regexp.MustCompile(`\bsays whether\b`), "reports whether"},
	{regexp.MustCompile(`(?i)\bwhoever\b`), "anyone who"},
	{regexp.MustCompile(`\bso many\b`), "a number, or rewrite"},
	{regexp.MustCompile(`\bnot built( yet)?\b`), "not supported"},
	{regexp.MustCompile(`\bunled\b`), "has no leader"},
	{regexp.MustCompile(`\bdialects?\b`), "log version"},
	{regexp.MustCompile(`(?i)\bevict(s|ed|ing|ion|ions)?\b`), "preempt"},
	{regexp.MustCompile(`\bprey\b`), "victim"},
}

// mayStand are texts that are kept, by file: what is stored or sent cannot be
// reworded.
var mayStand = map[string]string{
	"internal/state/codec/stop.go":      "the log holds these texts",
	"internal/streams/submit/launch.go": "the state holds the word evicted",
	"internal/state/stream_pes.go":      "the state holds the word evicted",
	"alloc.go":                          "evict is a desired status of Nomad's API",
}

// The product and its docs use the field's words.
func TestPlainWords(t *testing.T) {
	check := func(path string, line int, text string) {
		if mayStand[path] != "" {
			return
		}
		for _, w := range badWords {
			if m := w.find.FindString(text); m != "" {
				t.Errorf("%s:%d: %q: write %s", path, line, m, w.instead)
			}
		}
	}
	for _, f := range sources(t) {
		src := []byte(read(t, f.path))
		files := token.NewFileSet()
		file := files.AddFile(f.path, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		for {
			pos, tok, text := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok == token.COMMENT || tok == token.STRING {
				check(f.path, files.Position(pos).Line, strings.Join(strings.Fields(strings.ReplaceAll(text, "\n//", " ")), " "))
			}
		}
	}
	pages, _ := filepath.Glob("docs/*.md")
	decisions, _ := filepath.Glob("docs/decisions/*.md")
	for _, page := range append(append(pages, decisions...), "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		if page == "docs/glossary.md" { // which names the words to avoid
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			check(page, n+1, line)
		}
	}
}
