package server_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"
)

// BenchmarkPlacementBesideWatchers registers jobs one after another and waits until
// the evaluation of each is complete, while watchers ask over HTTP for the list of
// 2,000 jobs as soon as they have it.
func BenchmarkPlacementBesideWatchers(b *testing.B) {
	for _, watchers := range []int{0, 5, 20, 50} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			r := start(b, b.TempDir())
			for n := range 10 {
				r.node(n + 1)
			}
			for i := range 2000 {
				if _, _, err := r.api.Jobs().Register(sleeper(fmt.Sprintf("idle-%04d", i), 0), nil); err != nil {
					b.Fatal(err)
				}
			}
			// What clients do with an answer is not the server's: they read it away.
			client := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: watchers}}
			for range watchers {
				go func() {
					for index := "1"; ; {
						req, err := http.NewRequestWithContext(b.Context(), "GET", r.http+"/v1/jobs?wait=10s&index="+index, nil)
						if err != nil {
							return
						}
						resp, err := client.Do(req)
						if err != nil {
							return // the benchmark is over
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
						index = resp.Header.Get("X-Nomad-Index")
					}
				}()
			}
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				begun := time.Now()
				reg, _, err := r.api.Jobs().Register(sleeper(fmt.Sprintf("new-%d", i%100), 1+i/100%2), nil)
				if err != nil {
					b.Fatal(err)
				}
				r.settled(reg.EvalID)
				took = append(took, time.Since(begun))
				time.Sleep(10 * time.Millisecond)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			r.stop()
		})
	}
}
