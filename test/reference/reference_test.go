// Package reference keeps docs/reference true: the pages are made from what the program declares.
package reference

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/cli"
	"berth/internal/events"
	"berth/op"
)

var update = flag.Bool("update", false, "write the pages that are made from code")

// docs/reference is made from what the program declares: with -update this
// writes it.
func TestReferenceIsMadeFromDeclarations(t *testing.T) {
	for name, text := range map[string]string{"commands.md": cli.Reference(), "routes.md": routes(), "events.md": topics()} {
		file := filepath.Join("..", "..", "docs", "reference", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(file)
		if err != nil || len(b) == 0 || len(text) < 100 {
			t.Errorf("%s: %v; run this test with -update", file, err)
			continue
		}
		if string(b) != text {
			t.Errorf("%s is older than the declarations; run this test with -update", file)
		}
	}
}

// routes lists the operations that are served over HTTP.
func routes() string {
	var b strings.Builder
	b.WriteString("# HTTP routes\n\nEvery operation of the HTTP API. A name in braces is a part of the path. PUT accepts POST, too. *Here* means that the agent that is\n" +
		"asked answers by itself; everything else is answered by a server, to which it is forwarded. *Right* is the capability that a token needs\n" +
		"if access control is on ([access.md](../access.md)).\n" +
		"This page is made from the declarations: `go test ./test/reference -update`.\n\n| Route | Operation | Right | |\n|---|---|---|---|\n")
	for _, o := range op.All() {
		if o.Path == "" || strings.HasPrefix(o.Name, "failpoint.") { // the latter only in builds for tests
			continue
		}
		var more []string
		if o.Local {
			more = append(more, "here")
		}
		if o.Bytes {
			more = append(more, "bytes")
		}
		if o.Any {
			more = append(more, "any method")
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %v | %s |\n", o.Method, o.Path, o.Name, o.Need, strings.Join(more, ", "))
	}
	return b.String()
}

// topics lists the topics of the event stream.
func topics() string {
	var b strings.Builder
	b.WriteString("# Events\n\nThe topics of `GET /v1/event/stream`. `?topic=Job:web` selects the events with one key, `?topic=*` all topics.\n" +
		"`?payload=false` leaves out the rows, and with `&every=250ms` there is at most one message in that time, with the newest event of each topic asked for.\n" +
		"This page is made from the declarations: `go test ./test/reference -update`.\n\n")
	for _, topic := range events.Topics {
		fmt.Fprintf(&b, "* `%v`\n", topic)
	}
	return b.String()
}
