package host

import (
	"context"
	"sync"
	"time"

	"berth/internal/rest"
)

// How far apart two measurements may be for their difference to say what is
// going on now, and how long to wait between two that are made for one caller.
const (
	leastApart = time.Second
	mostApart  = time.Minute
	shortly    = 250 * time.Millisecond
)

// Sampler makes pairs of measurements, for what only a difference tells, such as
// the use of processors. The zero value is ready. It is safe for concurrent use.
type Sampler[T any] struct {
	turn        sync.Mutex // one measures at a time
	older, last sample[T]
}

// sample is a measurement. Its time is zero until something was measured.
type sample[T any] struct {
	at time.Time
	v  T
}

// Pair measures, and returns the result with an earlier one and the time between
// the two. If none was made within a minute it measures twice, which takes a
// quarter of a second.
func (s *Sampler[T]) Pair(ctx context.Context, measure func(context.Context) (T, error)) (before, now T, apart time.Duration, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	take := func() (sample[T], error) {
		v, err := measure(ctx)
		return sample[T]{time.Now(), v}, err
	}
	cur, err := take()
	if err != nil {
		return before, now, 0, err
	}
	if !s.last.at.IsZero() && cur.at.Sub(s.last.at) >= leastApart {
		s.older = s.last
	}
	if s.older.at.IsZero() || cur.at.Sub(s.older.at) > mostApart {
		s.older = cur
		if err := rest.For(ctx, shortly); err != nil {
			return before, now, 0, err
		}
		if cur, err = take(); err != nil {
			return before, now, 0, err
		}
	}
	s.last = cur
	return s.older.v, cur.v, cur.at.Sub(s.older.at), nil
}
