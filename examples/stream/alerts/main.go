// Command alerts is the example job alerts, which imports streams of another:
// it raises an alarm for each tuple at its input in, which are those that its
// filter lets through, and counts what comes at its input raw.
package main

import (
	"context"
	"fmt"
	"os"

	"berth/examples/stream/element"
)

func main() { os.Exit(element.Run(watch)) }

func watch(ctx context.Context, e *element.Element) error {
	alarms, raw := 0, 0
	return e.Receive(ctx, func(input string, t element.Tuple) {
		if input == "raw" {
			raw++
			e.Count("raw tuples", raw)
			return
		}
		alarms++
		if e.Count("alarms", alarms) {
			fmt.Printf("alarm: measurement %d has score %.3f, via %s\n", t.Seq, t.Score, t.Via)
		}
	})
}
