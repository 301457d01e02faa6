// Package story runs tests that are told as text: what happens stands above a
// line of four dashes, what comes of it below. The flag -update rewrites what
// stands below; the reviewer reads the difference.
//
//	# A full node is passed over.
//	node n1 cpu=1000
//	run web cpu=2000
//	----
//	web[0] has no place
//
// A file holds many stories. Each begins, after an empty line, with lines that
// start with "# ": the first is its name and says what it shows. It has one or
// more steps, parted by empty lines; a step with nothing to show has no dashes.
package story

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what the stories in testdata expect")

// Story is one story of a file.
type Story struct {
	Name  string
	intro []string // its lines that begin with #
	steps []*step
}

type step struct {
	input  string
	shows  bool // there are dashes
	output string
}

// Run plays every story of the files that match, each as a test of its own,
// and wants at least so many: a pattern that matches nothing shows nothing.
func Run(t *testing.T, pattern string, least int, play func(t *testing.T, s *Story)) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stories, err := parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		told += len(stories)
		base := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		for _, s := range stories {
			t.Run(base+"/"+s.Name, func(t *testing.T) { play(t, s) })
		}
		if now := print(stories); *update && now != string(text) {
			if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if told < least {
		t.Errorf("%s holds %d stories; at least %d are wanted", pattern, told, least)
	}
}

// Play hands the story's steps to do, one after another, and compares what it
// returns with what the story says. Trailing spaces and empty lines do not
// count.
func (s *Story) Play(t *testing.T, do func(input string) string) {
	t.Helper()
	for _, st := range s.steps {
		got := tidy(do(st.input))
		switch {
		case got == st.output:
		case *update:
			st.output, st.shows = got, true
		default:
			t.Errorf("%s\n%s\n---- is\n%s---- should be\n%s", s.Name, st.input, got, st.output)
		}
	}
}

func tidy(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

const dashes = "----"

func parse(text string) ([]*Story, error) {
	var out []*Story
	names := map[string]bool{}
	for para := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(para, "\n"), "\n")
		if lines[0] == "" {
			continue
		}
		if strings.HasPrefix(lines[0], "# ") {
			s := &Story{Name: strings.TrimSuffix(lines[0][2:], ".")}
			for len(lines) > 0 && strings.HasPrefix(lines[0], "#") {
				s.intro = append(s.intro, lines[0])
				lines = lines[1:]
			}
			if names[s.Name] {
				return nil, fmt.Errorf("two stories show %q", s.Name)
			}
			names[s.Name] = true
			out = append(out, s)
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("the first line must say what the first story shows, after \"# \"; it is %q", lines[0])
		}
		if len(lines) > 0 {
			out[len(out)-1].steps = append(out[len(out)-1].steps, parseStep(lines))
		}
	}
	for _, s := range out {
		if len(s.steps) == 0 {
			return nil, fmt.Errorf("story %q has no steps", s.Name)
		}
	}
	return out, nil
}

func parseStep(lines []string) *step {
	st := &step{}
	for i, l := range lines {
		if l == dashes {
			st.shows = true
			st.output = tidy(strings.Join(lines[i+1:], "\n"))
			lines = lines[:i]
			break
		}
	}
	st.input = strings.Join(lines, "\n") + "\n"
	return st
}

func print(stories []*Story) string {
	var out strings.Builder
	for i, s := range stories {
		if i > 0 {
			out.WriteString("\n")
		}
		for _, l := range s.intro {
			out.WriteString(l + "\n")
		}
		for j, st := range s.steps {
			if j > 0 {
				out.WriteString("\n")
			}
			out.WriteString(st.input)
			if st.shows {
				out.WriteString(dashes + "\n" + st.output)
			}
		}
	}
	return out.String()
}
