package main

import (
	"context"
	"errors"
	"time"

	"berth/internal/rest"
)

// Faults of messages between agents and servers, and between servers: what
// arrives twice, or late.

var twiceAndLate = &Fault{
	ID: "F-43", Kind: "messages", Name: "one call in five arrives twice, one answer in twenty comes up to 3 s late, and leadership moves meanwhile",
	Says: "nothing has an effect twice: no register, no plan, no report, no child of a token",
	Hold: 3 * time.Second,
	Start: func(ctx context.Context, r *round) error {
		r.work.twice.Store(true)
		for _, m := range r.machines() {
			if err := m.set("wire/twice=error*~0.2;wire/late=delay(3s)*~0.05"); err != nil {
				return err
			}
		}
		if err := rest.For(ctx, 3*time.Second); err != nil {
			return err
		}
		// Answers to a term that is over.
		_, err := r.call(ctx, r.anyone(), "PUT", "/v1/operator/raft/transfer-leadership", nil, nil)
		if err != nil {
			r.history.note("leadership was not handed over: %v", err)
		}
		return nil
	},
	Stop: func(_ context.Context, r *round) error {
		r.work.twice.Store(false)
		var errs []error
		for _, m := range r.machines() {
			errs = append(errs, m.set(""))
		}
		return errors.Join(errs...)
	},
}
