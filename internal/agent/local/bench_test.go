package local

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// taskState is about what is recorded of a task.
var taskState = []byte(`{"Launch":3,"Events":["` + strings.Repeat("x", 1500) + `"]}`)

func place(b *testing.B, db *DB, allocs int) (ids []string) {
	for i := range allocs {
		a := sample(b, i)
		must(b, db.PutAlloc(a))
		ids = append(ids, a.ID.String())
	}
	return ids
}

// BenchmarkPutTask records what tasks do, of as many allocations at once.
func BenchmarkPutTask(b *testing.B) {
	for _, allocs := range []int{1, 200} {
		b.Run(fmt.Sprintf("allocs=%d", allocs), func(b *testing.B) {
			db, _, _ := open(b, b.TempDir())
			defer db.Close()
			ids := place(b, db, allocs)
			b.ResetTimer()
			var wg sync.WaitGroup
			for n, id := range ids {
				wg.Go(func() {
					for range b.N/allocs + min(1, max(0, b.N%allocs-n)) {
						if err := db.PutTask(id, "t", taskState); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkPutTaskAmong records what one task does among many allocations.
func BenchmarkPutTaskAmong(b *testing.B) {
	db, _, _ := open(b, b.TempDir())
	defer db.Close()
	ids := place(b, db, 200)
	b.ResetTimer()
	for i := range b.N {
		must(b, db.PutTask(ids[i%len(ids)], "t", taskState))
	}
}

// BenchmarkPutReported records what servers took of a batch of 128.
func BenchmarkPutReported(b *testing.B) {
	db, _, _ := open(b, b.TempDir())
	defer db.Close()
	marks := map[string]string{}
	for _, id := range place(b, db, 128) {
		marks[id] = "AAAAAAAAAAAAAAAA"
	}
	b.ResetTimer()
	for range b.N {
		must(b, db.PutReported(marks))
	}
}

// BenchmarkOpen reads what is known of 200 allocations.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	db, _, _ := open(b, dir)
	for _, id := range place(b, db, 200) {
		must(b, db.PutTask(id, "t", taskState))
	}
	must(b, db.Close())
	b.ResetTimer()
	for range b.N {
		db, records, damage := open(b, dir)
		if len(records) != 200 || len(damage) > 0 {
			b.Fatal(len(records), damage)
		}
		must(b, db.Close())
	}
}
