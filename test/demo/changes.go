package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"berth/internal/eventually"
)

// change is an event about an object that has an owner.
type change struct {
	Index      uint64
	Type       string
	Kind, Name string
	UID, Owner string
	Cause      string
	Deleting   bool
}

// changes reads the event stream from an index on until one of the events is
// last.
func (s *stage) changes(from uint64, last func(*change) bool) (out []change, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, eventually.Limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/v1/event/stream?topic=Resource&index=%d", s.addr, from), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var events struct {
			Error  string
			Events []struct {
				Index   uint64
				Type    string
				Payload struct {
					Resource struct {
						Kind, Name, UID, OwnerUID, Cause string
						Deleting                         bool
					}
				}
			}
		}
		if err := lines.Decode(&events); err != nil {
			return out, fmt.Errorf("the event stream ends before what is waited for: %w", err)
		}
		if events.Error != "" {
			return out, errors.New(events.Error)
		}
		// All events of one index are kept, also those after the last one.
		ended := false
		for _, e := range events.Events {
			r := e.Payload.Resource
			c := change{e.Index, e.Type, r.Kind, r.Name, r.UID, r.OwnerUID, r.Cause, r.Deleting}
			out = append(out, c)
			ended = ended || last(&c)
		}
		if ended {
			return out, nil
		}
	}
}

// showChanges shows those events that are about the end and the beginning of
// objects.
func (s *stage) showChanges(from uint64, all []change) {
	fmt.Fprintf(s.out, "What was added, deleted or marked since index %d, by the events of /v1/event/stream?topic=Resource:\n", from)
	for _, c := range all {
		if c.Type != "Modified" || c.Kind == "Job" {
			fmt.Fprintf(s.out, "%5d  %-8s  %-17s  %-40s  %s  %s\n", c.Index, c.Type, c.Kind, c.Name, c.UID, c.Cause)
		}
	}
	fmt.Fprintln(s.out)
}

// index returns the newest index of the state.
func (s *stage) index() (uint64, error) {
	var out struct{ Index uint64 }
	err := s.get("/v1/operator/state-hash", &out)
	return out.Index, err
}

// ownerLast checks that everything that an owner had was deleted before it.
func ownerLast(all []change, uid string) error {
	gone := slices.IndexFunc(all, func(c change) bool { return c.UID == uid && c.Type == "Deleted" })
	if gone < 0 {
		return fmt.Errorf("no event says that %s was deleted", uid)
	}
	n := 0
	for _, c := range all {
		if c.Owner != uid || c.Type != "Deleted" {
			continue
		}
		if n++; c.Index >= all[gone].Index {
			return fmt.Errorf("%s %s went at %d, and its owner at %d", c.Kind, c.Name, c.Index, all[gone].Index)
		}
	}
	if n == 0 {
		return fmt.Errorf("nothing of what %s had was deleted", uid)
	}
	return nil
}

// successor checks that an incarnation was created when the one before it was
// deleted, and before anything that it owns.
func successor(all []change, old, now string) error {
	var gone, there uint64
	for _, c := range all {
		switch {
		case c.UID == old && c.Type == "Deleted":
			gone = c.Index
		case c.UID == now && c.Type == "Added":
			there = c.Index
		case c.Owner == now && c.Type == "Added" && (there == 0 || c.Index <= there):
			return fmt.Errorf("%s %s came at %d, before its owner", c.Kind, c.Name, c.Index)
		}
	}
	if gone == 0 || there != gone {
		return fmt.Errorf("%s went at %d, and %s came at %d; that should be one", old, gone, now, there)
	}
	return nil
}
