// Command source is the first stage of the example job telemetry: it measures
// twenty times a second.
package main

import (
	"context"
	"math"
	"os"
	"time"

	"berth/examples/stream/element"
)

func main() { os.Exit(element.Run(measure)) }

func measure(ctx context.Context, e *element.Element) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for seq := 1; ; seq++ {
		select {
		case <-tick.C:
			e.Send("raw", element.Tuple{Seq: seq, Value: 20 + 5*math.Sin(float64(seq)/10), Via: e.Name})
			e.Count("measured", seq)
		case <-ctx.Done():
			return nil
		}
	}
}
