package cpuset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":              "[]",
		" \n":           "[]",
		"0":             "[0]",
		"0-2,7,12-14\n": "[0 1 2 7 12 13 14]",
		"3,1,2, 1-2":    "[1 2 3]",
		"8191":          "[8191]",
		"a":             `"a" is neither`,
		"1,,2":          `"" is neither`,
		"3-1":           `"3-1" is neither`,
		"0-9999":        `"0-9999" is neither`,
		"-1":            `"-1" is neither`,
		"1-2-3":         `"1-2-3" is neither`,
	} {
		set, err := Parse(text)
		got := fmt.Sprint(set)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// What is written is read back, in whatever order it was given.
func TestFormatAndParseAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.SliceOfNDistinct(rapid.Uint16Range(0, 40), 0, 30, rapid.ID[uint16]).Draw(t, "set")
		text := Format(set)
		back, err := Parse(text)
		slices.Sort(set)
		if err != nil || !slices.Equal(back, set) {
			t.Fatalf("%v became %q, and that %v, %v", set, text, back, err)
		}
	})
	if got := Format([]uint16{14, 0, 1, 2, 7, 12, 13}); got != "0-2,7,12-14" {
		t.Error(got)
	}
	if got := Minus([]uint16{0, 1, 2, 3}, []uint16{1, 9}); Format(got) != "0,2-3" {
		t.Error(got)
	}
	if got := Both([]uint16{0, 1, 2, 3}, []uint16{1, 3, 9}); Format(got) != "1,3" {
		t.Error(got)
	}
}
