package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"
)

// Each command that the demonstration prints is the request that was made, and
// what follows is the answer to it.
func TestPrintedCommandsAreWhatWasAsked(t *testing.T) {
	var out bytes.Buffer
	s := &stage{ctx: t.Context(), out: &out}
	var asked []string
	for i := range clusterServers {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, "http://"+r.Host+r.URL.String())
			fmt.Fprint(w, `{"Index": 7, "Hash": "abc"}`)
		}))
		defer h.Close()
		s.members = append(s.members, &member{name: fmt.Sprint("s", i+1), addr: h.URL})
	}
	if err := s.compare(); err != nil {
		t.Fatal(err)
	}
	var printed []string
	for _, m := range regexp.MustCompile(`(?m)^\$ curl '(.*)' # s\d\n\{"Index": 7, "Hash": "abc"\}$`).FindAllStringSubmatch(out.String(), -1) {
		printed = append(printed, m[1])
	}
	if len(printed) != clusterServers || !slices.Equal(printed, asked) {
		t.Errorf("printed are %q, and asked was %q:\n%s", printed, asked, out.String())
	}
}
