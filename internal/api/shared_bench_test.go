package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"berth"
	"berth/internal/api"
	"berth/internal/state"
	"berth/internal/state/statetest"
	"berth/op"
)

// discard is an answer that nobody reads.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { d.bytes += len(b); return len(b), nil }

// What watchers of a list of 2,000 jobs cost the changes of its rows: the time
// that a change takes while each of them asks for the next list as soon as it has
// one.
func BenchmarkChangesBesideWatchers(b *testing.B) {
	for _, watchers := range []int{0, 5, 20, 50} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			s, log := serve(b, nil, many(b, 2000)...)
			done := make(chan struct{})
			for range watchers {
				go func() {
					for index := "1"; ; {
						w := &discard{header: http.Header{}}
						r := httptest.NewRequestWithContext(b.Context(), "GET", "/v1/jobs?wait=1s&index="+index, nil)
						s.ServeHTTP(w, r)
						index = w.header.Get(op.HeaderIndex)
						select {
						case <-done:
							return
						default:
						}
					}
				}()
			}
			defer close(done)
			before := s.ListStats()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				log.Must(b, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: berth.JobID(fmt.Sprintf("j%05d", i%2000))}, Now: int64(i)})
				took = append(took, time.Since(start))
				time.Sleep(time.Millisecond)
			}
			after := s.ListStats()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(after.Encodings-before.Encodings)/b.Elapsed().Seconds(), "lists/s")
			b.ReportMetric(float64(after.Answers-before.Answers)/b.Elapsed().Seconds(), "answers/s")
		})
	}
}

// processorTime is what the process has used so far: lists are made on goroutines of
// their own.
func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// placed are n allocations of jobs of a thousand each.
func placed(b *testing.B, n int) (cmds []state.Command) {
	for j := range n / 1000 {
		cmds = append(cmds, statetest.AddNode(j+1, 1_000_000, 1_000_000))
		job := statetest.Job(b, fmt.Sprintf(`{"ID": "web%d", "TaskGroups": [{"Name": "g", "Count": 1000, "Tasks": [{"Name": "app", "Driver": "mock_driver", "Resources": {"CPU": 1, "MemoryMB": 10}}]}]}`, j))
		plan := &state.ApplyPlan{Eval: statetest.ID[berth.Eval](j + 1), Now: 2, End: &state.EvalEnd{Status: berth.EvalComplete}}
		for i := range 1000 {
			plan.Place = append(plan.Place, berth.Placement{Index: uint32(i), NodeID: statetest.ID[berth.Node](j + 1)})
		}
		cmds = append(cmds, statetest.Register(job, j+1), plan)
	}
	return cmds
}

// What 50,000 allocations cost in 500 pages, and in pages with a filter that each
// row meets, or one in a hundred.
func BenchmarkPages(b *testing.B) {
	var store *state.Store
	_, log := serve(b, func(c *api.Config) { store = c.Store }, placed(b, 50_000)...)
	for _, c := range []struct{ name, filter string }{{"all", ""}, {"filtered", `ClientStatus == "pending"`}, {"few", `Name matches "^web7[.]"`}, {"whole", `Job.Priority == 50`}} {
		b.Run(c.name, func(b *testing.B) {
			rows := 0
			var took time.Duration
			for b.Loop() {
				// A server that has no pages yet.
				s, _ := serve(b, func(c *api.Config) { c.Store, c.Cluster = store, leader{log} })
				before := processorTime(b)
				for token := ""; ; {
					w := &discard{header: http.Header{}}
					s.ServeHTTP(w, httptest.NewRequest("GET", "/v1/allocations?per_page=100&next_token="+token+"&filter="+url.QueryEscape(c.filter), nil))
					rows++
					if token = w.header.Get(op.HeaderNextToken); token == "" {
						break
					}
				}
				took += processorTime(b) - before
			}
			if c.filter == "" && rows != 500*b.N {
				b.Fatalf("%d pages", rows)
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "cpu-s/walk")
			b.ReportMetric(float64(rows)/float64(b.N), "pages/walk")
		})
	}
}

// What a list of 2,000 jobs costs in which one row changes each time, and one in
// which none does.
func BenchmarkListOfJobs(b *testing.B) {
	for _, changes := range []int{0, 1} {
		b.Run(fmt.Sprint(changes), func(b *testing.B) {
			s, log := serve(b, nil, many(b, 2000)...)
			before := processorTime(b)
			n := 0
			for b.Loop() {
				n++
				for range changes {
					log.Must(b, &state.StopJob{Key: berth.JobKey{Namespace: "default", ID: "j00007"}, Now: int64(n)})
				}
				w := &discard{header: http.Header{}}
				s.ServeHTTP(w, httptest.NewRequest("GET", "/v1/jobs", nil))
				if w.bytes < 100_000 {
					b.Fatal(w)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(n), "cpu-µs/list")
		})
	}
}
