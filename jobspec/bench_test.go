package jobspec

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"golang.org/x/tools/txtar"

	"berth"
)

func completeStory(b *testing.B) []byte {
	text, err := os.ReadFile("testdata/complete.txt")
	if err != nil {
		b.Fatal(err)
	}
	return txtar.Parse(text).Files[0].Data
}

// BenchmarkHCL parses a job of two tasks with most of its blocks written out.
func BenchmarkHCL(b *testing.B) { benchmark(b, completeStory(b)) }

// BenchmarkJSON parses the same job as the API has it.
func BenchmarkJSON(b *testing.B) {
	job, err := Parse(context.Background(), File{"web.nomad", completeStory(b)}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	text, err := json.Marshal(map[string]*berth.Job{"Job": job})
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, text)
}

func benchmark(b *testing.B, text []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse(context.Background(), File{"job", text}, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
