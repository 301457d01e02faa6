// Command sink is the last stage of the example job telemetry: it adds up what
// comes.
package main

import (
	"context"
	"fmt"
	"os"

	"berth/examples/stream/element"
)

func main() { os.Exit(element.Run(store)) }

func store(ctx context.Context, e *element.Element) error {
	n, sum := 0, 0.0
	return e.Receive(ctx, func(_ string, t element.Tuple) {
		n++
		sum += t.Score
		if e.Count("stored", n) {
			fmt.Printf("mean score %.3f; the last is %d via %s\n", sum/float64(n), t.Seq, t.Via)
		}
	})
}
