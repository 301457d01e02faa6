// Durable says what a large state costs that must survive: how long it takes to
// save it, to start a server on it, and to bring it to a server that has
// nothing, and how many bytes each takes.
//
//	go run ./bench/durable -allocs 1000000
//
// The servers are those of package consensus, over TCP on loopback, with their
// logs and snapshots on disk; the state is filled through the log, as users
// would: jobs of 1,000 instances, planned, and reported to run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"berth/internal/consensus"
)

// main measures in a temporary directory and removes it.
func main() {
	log.SetFlags(0)
	allocs := flag.Int("allocs", 1_000_000, "allocations, of jobs of 1,000")
	nodes := flag.Int("nodes", 10_000, "nodes that they are on")
	parent := flag.String("dir", "", "where the servers' data goes for the time being; the system's folder for that if empty")
	flag.Parse()
	dir, err := os.MkdirTemp(*parent, "berth-durable-")
	if err != nil {
		log.Fatal(err)
	}
	err = measure(dir, max(*allocs/1000, 1), max(*nodes, 1))
	if err := os.RemoveAll(dir); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// measure fills a server with jobs of 1,000 allocations and prints how long it
// takes to save, restore and replicate them.
func measure(dir string, jobs, nodes int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	first, err := start(ctx, dir, "first", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := first.Bootstrap([]consensus.Peer{{ID: first.id, Address: first.address, Voter: true}}); err != nil {
		return err
	}
	began := time.Now()
	if err := first.fill(ctx, jobs, nodes); err != nil {
		return err
	}
	all := jobs * 1000
	t := table{w: tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight), allocs: all}
	t.row("", "s", "allocs/s", "MiB", "B/alloc")
	t.figure("filled through the log", time.Since(began), first.bytes("log"))

	began = time.Now()
	if err := first.Save(); err != nil {
		return err
	}
	t.figure("saved to a snapshot", time.Since(began), first.bytes("snapshots"))

	index := first.store.Snapshot().Index
	hash := first.store.Snapshot().Hash()
	if err := first.close(); err != nil {
		return err
	}
	began = time.Now()
	again, err := start(ctx, dir, "first", first.address)
	if err != nil {
		return err
	}
	if _, err := again.leading(ctx); err != nil {
		return err
	}
	t.figure("started on it, until it leads", time.Since(began), 0)

	began = time.Now()
	empty, err := start(ctx, dir, "empty", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := again.AddVoter(ctx, consensus.Peer{ID: empty.id, Address: empty.address, Voter: true}); err != nil {
		return err
	}
	snap, err := empty.store.Await(ctx, index)
	if err != nil {
		return err
	}
	t.figure("installed on an empty server", time.Since(began), empty.received.Load())
	if err := t.w.Flush(); err != nil {
		return err
	}
	if now := again.store.Snapshot(); now.Index == snap.Index && now.Hash() != snap.Hash() || snap.Index == index && snap.Hash() != hash {
		return fmt.Errorf("the states differ at index %d", snap.Index)
	}
	if n := allocations(snap); n != all {
		return fmt.Errorf("%d allocations arrived, %d were made", n, all)
	}
	if err := again.close(); err != nil {
		return err
	}
	return empty.close()
}

// table prints the figures, each per allocation too.
type table struct {
	w      *tabwriter.Writer
	allocs int
}

// row adds a row.
func (t *table) row(cells ...string) {
	for _, c := range cells {
		fmt.Fprint(t.w, c, "\t")
	}
	fmt.Fprintln(t.w)
}

// figure adds a row with a time and a size, in total and for each allocation. A
// size of 0 is left out.
func (t *table) figure(what string, took time.Duration, bytes int64) {
	size, each := "", ""
	if bytes > 0 {
		size, each = fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), fmt.Sprintf("%.1f", float64(bytes)/float64(t.allocs))
	}
	t.row(what, fmt.Sprintf("%.2f", took.Seconds()), fmt.Sprintf("%.0f", float64(t.allocs)/took.Seconds()), size, each)
}

// bytes returns how large a folder of the server's is.
func (s *server) bytes(folder string) (sum int64) {
	err := filepath.WalkDir(filepath.Join(s.dir, folder), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		log.Printf("the size of %s: %v", folder, err)
	}
	return sum
}
