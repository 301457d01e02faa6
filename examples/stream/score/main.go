// Command score is the second stage of the example job telemetry, which there
// are several of: it scores measurements by how far they are from what is usual.
package main

import (
	"context"
	"math"
	"os"

	"berth/examples/stream/element"
)

func main() { os.Exit(element.Run(score)) }

func score(ctx context.Context, e *element.Element) error {
	n := 0
	return e.Receive(ctx, func(_ string, t element.Tuple) {
		t.Score = math.Abs(t.Value-20) / 5
		t.Via += " > " + e.Name
		e.Send("scored", t)
		n++
		e.Count("scored", n)
	})
}
