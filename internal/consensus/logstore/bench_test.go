package logstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// BenchmarkAppend measures one durable append of one entry. Run it with
// -benchtime=5000x for percentiles that mean something, and TMPDIR on the disk
// to be measured.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10, 512 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			s := open(b, b.TempDir())
			l := entry(1, 1, size)
			took := make([]time.Duration, 0, b.N)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if err := s.StoreLogs([]*raft.Log{l}); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
				l.Index++
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-µs")
			appended, _, err := s.Bytes()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(appended)/float64(len(took)*size), "log-B/B")
		})
	}
}

// BenchmarkRead reads the log from one end to the other, as a start or a
// lagging follower does.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			s := open(b, b.TempDir())
			n := uint64(32 << 20 / size) // twice what is kept in memory
			for i := uint64(1); i <= n; i += 16 {
				store(b, s, entries(i, min(i+15, n), 1, size))
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var l raft.Log
			i := uint64(0)
			for b.Loop() {
				if err := s.GetLog(i%n+1, &l); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkOpen starts on a log of n entries of 4 KiB, all of them checked.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []uint64{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, dir)
			for i := uint64(1); i <= n; i += 100 {
				store(b, s, entries(i, i+99, 1, 4<<10))
			}
			s.Close()
			for b.Loop() {
				s, err := Open(dir, quiet())
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkSet measures one durable change of the vote.
func BenchmarkSet(b *testing.B) {
	s := open(b, b.TempDir())
	term := uint64(0)
	for b.Loop() {
		term++
		if err := s.SetUint64([]byte("CurrentTerm"), term); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRaftApply measures an entry's way through the real raft in
// one-server mode: appended, committed, applied, answered. With several
// proposers raft itself puts what waits into one append.
func BenchmarkRaftApply(b *testing.B) {
	for _, proposers := range []int{2, 16, 64} {
		b.Run(fmt.Sprint(proposers), func(b *testing.B) {
			s := startServer(b, b.TempDir(), true)
			defer s.stop(b)
			data := entry(1, 1, 4<<10).Data
			b.SetParallelism(proposers / 2) // times two processors
			before := s.store.seq
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := s.raft.Apply(data, 10*time.Second).Error(); err != nil {
						b.Error(err)
					}
				}
			})
			s.store.writing.Lock()
			defer s.store.writing.Unlock()
			b.ReportMetric(float64(b.N)/float64(s.store.seq-before), "entries/append")
		})
	}
}
