package bed

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"berth/internal/eventually"
)

// Until waits until amiss returns "". Any other text is what is still missing.
// It gives up after eventually.Limit, or when ctx ends.
func Until(ctx context.Context, what string, amiss func() string) error {
	ctx, cancel := context.WithTimeout(ctx, eventually.Limit)
	defer cancel()
	return Poll(ctx, what, amiss)
}

// Got is what is amiss when a text that was read is not yet what it must be. It is
// never "", so a text that is still empty is waited for, too.
func Got(text string) string { return fmt.Sprintf("got %q", text) }

// Poll is Until for as long as ctx lasts.
func Poll(ctx context.Context, what string, amiss func() string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	for {
		missing := amiss()
		if missing == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("after %v still waiting until %s: %s", time.Since(began).Round(time.Second), what, missing)
		}
	}
}

// Answer is an answer of the HTTP API.
type Answer struct {
	Code   int
	Header http.Header
	Text   string
}

// Good reports whether the request succeeded.
func (a Answer) Good() bool { return a.Code/100 == 2 }

// HTTP is a client that keeps no connections: they would outlive an agent that
// is killed.
var HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call sends a request. An error means that there was no complete answer.
func Call(ctx context.Context, method, url, body string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	resp, err := HTTP.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	return Answer{resp.StatusCode, resp.Header, string(text)}, nil
}
