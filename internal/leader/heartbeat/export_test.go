package heartbeat

import (
	"time"

	"berth"
)

// UntilAllAreGivenUp returns how long a limiter takes to give up nodes of a
// cluster that fall silent at the same moment and do not come back.
func UntilAllAreGivenUp(l Limiter, nodes, silent int) time.Duration {
	b := limiter{Limiter: l}
	began := time.Unix(0, 0)
	for i := range silent {
		b.add(berth.NodeID{byte(i), byte(i >> 8)}, began)
	}
	for now, left := began, silent; ; now = now.Add(time.Second) {
		b.judge(nodes-silent, now)
		out, _ := b.release(nodes-silent, now)
		if left -= len(out); left == 0 {
			return now.Sub(began)
		}
	}
}
