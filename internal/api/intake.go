package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"berth"
	"berth/internal/budget"
	"berth/internal/limit"
	"berth/op"
)

// intake bounds what the requests in progress that have a body may cost, all
// together and those of one address. A request takes its share before its body
// is read, and keeps it until nothing of the body is needed any more. Requests
// with small bodies have shares of their own, so large ones never keep them out.
// The calls of agents do not pass here, but over the RPC port.
type intake struct{ small, large lane }

// lane is the budget of one class of requests. What arrives is counted apart
// from what is decoded: bytes are cheap and may come slowly, while decoding
// multiplies them and keeps a processor busy.
type lane struct {
	arriving *budget.Budget // bytes of bodies
	decoding *budget.Budget // bytes of memory, estimated

	arrivingLimit, decodingLimit *limit.Limit
}

const (
	smallBody = 64 << 10 // bytes; a larger body is a large one

	// A tree of JSON can need a hundred times its text, but the number of its
	// values is limited, and what clients send needs some ten times as much.
	memoryPerByte = 16

	minBody    = 1 << 10 // a shorter body counts as one of this many bytes
	intakeWait = 10 * time.Second
	queueEach  = 128 // requests of one address that wait in a lane
)

// largeMemory is what one large request can need: decoding the largest body.
const largeMemory = op.MaxJobBody * memoryPerByte

var (
	smallArriving = declareIntake("small_bodies", "Bytes of request bodies of up to 64 KiB that arrive; one address may have a quarter", 32<<20)
	smallDecoding = declareIntake("small_requests", "Memory for requests with such bodies, 16 times their size; one address may have a quarter", 128<<20)
	largeArriving = declareIntake("large_bodies", "Bytes of larger request bodies that arrive; one address may have an eighth", 128<<20)
	largeDecoding = declareIntake("large_requests", "Memory for requests with such bodies, 16 times their size, and 64 MiB for each job file to parse: 64 MiB for every two processors; one address may have half of it, and at least 64 MiB", 0)
)

// declareIntake declares a limit of the intake.
func declareIntake(name, of string, most int64) *limit.Limit {
	return limit.Declare(limit.Info{
		Name: name, Of: of, Unit: limit.Bytes, Default: most, Beyond: "the request waits up to 10 s, then 429 with Retry-After",
	})
}

// newIntake returns the intake of an agent.
func newIntake() *intake {
	share := func(total, each int64) *budget.Budget {
		return budget.New(budget.Limits{Total: total, Each: each, Queue: queueEach})
	}
	// Half of the processors stay for everything else.
	slots := int64(max(1, runtime.GOMAXPROCS(0)/2))
	return &intake{
		small: lane{share(smallArriving.Default, smallArriving.Default/4), share(smallDecoding.Default, smallDecoding.Default/4), smallArriving, smallDecoding},
		large: lane{share(largeArriving.Default, largeArriving.Default/8), share(slots*largeMemory, max(1, slots/2)*largeMemory), largeArriving, largeDecoding},
	}
}

// lane returns the lane of a body with that many bytes; -1 means that the size
// is not known yet.
func (in *intake) lane(size int64) *lane {
	if size >= 0 && size <= smallBody {
		return &in.small
	}
	return &in.large
}

// share is what one request has of the intake.
type share struct {
	*intake
	address  string
	patience time.Duration // how long it may still wait
	gives    []func()
}

// share returns the share of a request from an address. The caller must call end.
func (in *intake) share(remoteAddr string) *share {
	return &share{intake: in, address: clientKey(remote(remoteAddr)), patience: intakeWait}
}

// end gives everything back.
func (s *share) end() {
	for _, give := range s.gives {
		give()
	}
	s.gives = nil
}

// take takes an amount of a budget, of which l is the limit.
func (s *share) take(ctx context.Context, b *budget.Budget, l *limit.Limit, amount int64) error {
	start := time.Now()
	give, err := b.Take(ctx, s.address, min(amount, b.Each()), s.patience)
	s.patience -= time.Since(start)
	if errors.Is(err, budget.ErrBusy) {
		l.Refuse("address", s.address)
		return berth.Errorf(berth.Limited, "too many requests with a body are in progress, from your address or in total: try again in a second")
	}
	if err != nil {
		return err
	}
	s.gives = append(s.gives, give)
	total, each := b.Taken(s.address)
	// Whichever is nearer to its limit is what an operator needs to know.
	if each*b.Total() > total*b.Each() {
		total = each * b.Total() / b.Each()
	}
	l.Use(total, b.Total(), "address", s.address)
	return nil
}

// read reads the body of a request, and takes the share for decoding it.
func (s *share) read(w http.ResponseWriter, r *http.Request, info *op.Info) ([]byte, error) {
	size := r.ContentLength
	switch {
	case size == 0:
		return nil, nil
	case size > info.MaxBody:
		return nil, tooLarge(info.MaxBody)
	}
	l := s.lane(size)
	reserved := size
	if size < 0 {
		reserved = info.MaxBody
	}
	if err := s.take(r.Context(), l.arriving, l.arrivingLimit, max(reserved, minBody)); err != nil {
		return nil, err
	}
	// The time for the body begins when it is read, not while it waited.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	text, err := readBody(w, r, info.MaxBody)
	if err != nil {
		return nil, err
	}
	return text, s.decoding(r.Context(), info, int64(len(text)))
}

// decoding takes the share for decoding a body. That of a job file is a whole
// slot, because a short file can keep a processor busy for a second.
func (s *share) decoding(ctx context.Context, info *op.Info, size int64) error {
	l, amount := s.lane(size), max(size, minBody)*memoryPerByte
	if info == op.Parse.Info {
		l, amount = &s.large, largeMemory
	}
	return s.take(ctx, l.decoding, l.decodingLimit, amount)
}

// readBody reads a body of at most that many bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	var text bytes.Buffer
	if r.ContentLength > 0 {
		text.Grow(int(min(r.ContentLength, most)) + bytes.MinRead) // room to notice the end
	}
	if _, err := text.ReadFrom(http.MaxBytesReader(w, r.Body, most)); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, tooLarge(most)
		}
		return nil, berth.Errorf(berth.Invalid, "cannot read the body: %w", err)
	}
	return text.Bytes(), nil
}

// tooLarge is the error for a body of more bytes than its route takes.
func tooLarge(most int64) error {
	return berth.Errorf(berth.TooLarge, "the body is larger than %d bytes", most)
}
