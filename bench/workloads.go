package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// users are the callers of the HTTP API.
type users struct {
	base   string
	client *http.Client
	tokens []string // with which requests take turns; nil if access control is off
	turn   atomic.Uint64
}

// newUsers returns a client of the API at base with enough idle connections for
// all callers.
func newUsers(base string) *users {
	return &users{base: base, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
}

// makeTokens makes tokens that may run jobs in the default namespace.
func (a *users) makeTokens(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	var token struct{ SecretID string }
	if _, err := a.do(ctx, "PUT", "/v1/acl/bootstrap", nil, &token); err != nil {
		return err
	}
	a.tokens = []string{token.SecretID}
	rules := []byte(`{"Name":"team","Rules":"namespace \"default\" { policy = \"write\" }"}`)
	if _, err := a.do(ctx, "PUT", "/v1/acl/policy/team", rules, nil); err != nil {
		return err
	}
	made := make([]string, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range made {
		g.Go(func() error {
			var token struct{ SecretID string }
			_, err := a.do(gctx, "PUT", "/v1/acl/token", fmt.Appendf(nil, `{"Name":"user-%d","Type":"client","Policies":["team"]}`, i), &token)
			made[i] = token.SecretID
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	a.tokens = made
	return nil
}

// job returns the body that registers a job with one group and a small ask. It
// creates no deployment, because only placing is measured.
func job(id, typ string, count, cpu int) []byte {
	body, _ := json.Marshal(map[string]any{"Job": map[string]any{
		"ID": id, "Type": typ, "Update": map[string]any{"MaxParallel": 0},
		"TaskGroups": []any{map[string]any{
			"Name": "g", "Count": count, "EphemeralDisk": map[string]any{"SizeMB": 10},
			"Tasks": []any{map[string]any{
				"Name": "app", "Driver": "mock_driver", "Config": map[string]any{"run_for": "24h"},
				"LogConfig": map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1},
				"Resources": map[string]any{"CPU": cpu, "MemoryMB": 64},
			}},
		}},
	}})
	return body
}

// registered is the answer to a registered job.
type registered struct {
	EvalID         string
	JobModifyIndex uint64
}

// register registers a job.
func (a *users) register(ctx context.Context, body []byte) (out registered, err error) {
	_, err = a.do(ctx, "PUT", "/v1/jobs", body, &out)
	return out, err
}

// do makes a request and decodes its answer into out. It returns the index of
// the answer, 0 if it has none.
func (a *users) do(ctx context.Context, method, path string, body []byte, out any) (index uint64, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if n := uint64(len(a.tokens)); n > 0 {
		req.Header.Set("X-Nomad-Token", a.tokens[a.turn.Add(1)%n])
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	index, _ = strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
	if out == nil {
		return index, nil
	}
	return index, json.Unmarshal(text, out)
}

// placed waits until a job of one instance has its allocation.
func (a *users) placed(ctx context.Context, id string) error {
	var index uint64
	for {
		var allocs []struct{ ID string }
		now, err := a.do(ctx, "GET", fmt.Sprintf("/v1/job/%s/allocations?index=%d&wait=10s", id, index), nil, &allocs)
		if err != nil || len(allocs) > 0 {
			return err
		}
		index = now
	}
}

// scaled returns n at the scale of this run, at least 1.
func (b *bed) scaled(n int) int { return max(1, int(float64(n)*b.scale)) }

// b1 measures throughput: batch jobs of 100 allocations each, until all run.
func b1(ctx context.Context, b *bed) (*result, error) {
	jobs, each := b.scaled(100), 100
	m := b.meter()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range jobs {
		g.Go(func() error {
			_, err := b.api.register(gctx, job(fmt.Sprint("batch-", i), "batch", each, 100))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := b.running(ctx, jobs*each); err != nil {
		return nil, err
	}
	took := time.Since(m.start)
	r := &result{}
	r.add("running", float64(jobs*each)/took.Seconds(), " allocs/s")
	r.add("took", took.Seconds(), " s")
	m.stop(r, jobs*each)
	return r, nil
}

// b3 measures many users at once: 32 register jobs of one allocation and wait
// for each to be placed.
func b3(ctx context.Context, b *bed) (*result, error) {
	jobs := b.scaled(10_000)
	var mu sync.Mutex
	var times []time.Duration
	m := b.meter()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range jobs {
		g.Go(func() error {
			id := fmt.Sprint("one-", i)
			start := time.Now()
			if _, err := b.api.register(gctx, job(id, "service", 1, 100)); err != nil {
				return err
			}
			if err := b.api.placed(gctx, id); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Since(start))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// Throughput counts the whole run; the percentiles are of single jobs.
	took := time.Since(m.start)
	r := &result{}
	r.add("placed", float64(jobs)/took.Seconds(), " jobs/s")
	percentiles(r, times)
	m.stop(r, jobs)
	return r, nil
}

// b4 measures latency: one user registers a job of one allocation after the
// other.
func b4(ctx context.Context, b *bed) (*result, error) {
	jobs := b.scaled(1000)
	var times []time.Duration
	m := b.meter()
	for i := range jobs {
		id := fmt.Sprint("one-", i)
		start := time.Now()
		if _, err := b.api.register(ctx, job(id, "service", 1, 100)); err != nil {
			return nil, err
		}
		if err := b.api.placed(ctx, id); err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
	}
	r := &result{}
	percentiles(r, times)
	m.stop(r, jobs)
	return r, nil
}

// percentiles adds the median and the 99th percentile in milliseconds. It sorts
// times.
func percentiles(r *result, times []time.Duration) {
	slices.Sort(times)
	at := func(p float64) float64 { return float64(times[int(float64(len(times)-1)*p)].Microseconds()) / 1000 }
	r.add("placed p50", at(0.5), " ms")
	r.add("p99", at(0.99), " ms")
}

// b12 measures memory and disk for many allocations, by what is in use before
// and after them.
func b12(ctx context.Context, b *bed) (*result, error) {
	before, err := b.collected()
	if err != nil {
		return nil, err
	}
	jobs, each := b.scaled(200), 1000
	m := b.meter()
	for i := range jobs {
		if _, err := b.api.register(ctx, job(fmt.Sprint("batch-", i), "batch", each, 50)); err != nil {
			return nil, err
		}
	}
	if err := b.running(ctx, jobs*each); err != nil {
		return nil, err
	}
	after, err := b.collected()
	if err != nil {
		return nil, err
	}
	if err := b.profile("heap?gc=1"); err != nil {
		return nil, err
	}
	r := &result{}
	n := float64(jobs * each)
	r.add("allocations", n, "")
	r.add("all heap", after["Heap"]/n, " B/alloc")
	r.add("heap over empty", (after["Heap"]-before["Heap"])/n, " B/alloc")
	r.add("snapshot", after["Snapshot"]/n, " B/alloc")
	r.add("running", n/time.Since(m.start).Seconds(), " allocs/s")
	m.stop(r, int(n))
	return r, nil
}
