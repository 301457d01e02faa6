package glob

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, x := range strings.Fields("a=a a*= *=a a*=ab *b=ab a*b=ab a*b=axb a**b=ab *a*b*=xaxbx") {
		pattern, name, _ := strings.Cut(x, "=")
		if want := pattern != "a*" || name != ""; Match(pattern, name) != want {
			t.Errorf("%q and %q: not %v", pattern, name, want)
		}
	}
	for _, x := range strings.Fields("a=b a=ab a*b=a a*a=a *a*b*=ba ab*ba=aba") {
		pattern, name, _ := strings.Cut(x, "=")
		if Match(pattern, name) {
			t.Errorf("%q matches %q", pattern, name)
		}
	}
}
