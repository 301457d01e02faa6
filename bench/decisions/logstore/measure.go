package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sizes of entries: one command alone, a busy moment, a burst, the limit.
var sizes = []struct {
	bytes, n int
	label    string
}{{200, 20000, "200 B"}, {4 << 10, 20000, "4 KiB"}, {64 << 10, 3000, "64 KiB"}, {512 << 10, 500, "512 KiB"}}

// appended is what one run of appending cost.
type appended struct {
	P50, P99, CPU float64 // µs; CPU is per append, user and system
	Written       float64 // bytes sent to the disk per byte of entry, closing included
	RSS           float64 // MiB
}

// appends prints the cost of appending one entry at a time.
func appends() {
	fmt.Printf("| engine | entry | p50 µs | p99 µs | CPU µs | written/byte | peak RSS MiB |\n|---|---|---|---|---|---|---|\n")
	for _, s := range sizes {
		all := map[string][]appended{}
		for range *runsFlag { // engines take turns, so that a slow minute of the disk hits all
			for _, name := range chosen(true) {
				dir := tempDir()
				var a appended
				must(child(&a, "child-append", name, dir, strconv.Itoa(s.bytes), strconv.Itoa(s.n)))
				all[name] = append(all[name], a)
				os.RemoveAll(dir)
			}
		}
		for _, name := range chosen(true) {
			of := func(f func(appended) float64) float64 { return median(all[name], f) }
			fmt.Printf("| %s | %s | %.0f | %.0f | %.0f | %.2f | %.0f |\n", name, s.label,
				of(func(a appended) float64 { return a.P50 }), of(func(a appended) float64 { return a.P99 }),
				of(func(a appended) float64 { return a.CPU }), of(func(a appended) float64 { return a.Written }),
				of(func(a appended) float64 { return a.RSS }))
		}
	}
}

// median returns the median of f over all.
func median[T any](all []T, f func(T) float64) float64 {
	vs := make([]float64, len(all))
	for i, a := range all {
		vs[i] = f(a)
	}
	slices.Sort(vs)
	return vs[len(vs)/2]
}

// childAppend appends entries and answers with their times, CPU and bytes
// written. A process of its own keeps the engines' costs apart.
func childAppend() {
	name, dir := flag.Arg(1), flag.Arg(2)
	size, _ := strconv.Atoi(flag.Arg(3))
	n, _ := strconv.Atoi(flag.Arg(4))
	e, err := openNamed(name, dir)
	must(err)
	entry := content(7, size)
	took := make([]time.Duration, n)
	cpu0, io0 := cpu(), written()
	for i := range n {
		b := slices.Clone(entry)
		start := time.Now()
		must(e.Append(uint64(i+1), [][]byte{b}))
		took[i] = time.Since(start)
	}
	used := cpu() - cpu0
	must(e.Close())
	syscall.Sync()
	slices.Sort(took)
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	µs := func(d time.Duration) float64 { return float64(d) / 1e3 }
	answer(appended{
		P50: µs(took[n/2]), P99: µs(took[n*99/100]), CPU: µs(used) / float64(n),
		Written: float64(written()-io0) / float64(n*size), RSS: float64(ru.Maxrss) / 1024,
	})
}

// content returns bytes that do not compress, as packed commands hardly do.
func content(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// cpu returns the CPU time that this process has used.
func cpu() time.Duration {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// written returns the bytes that this process has caused to be sent to disks.
func written() int64 {
	b, err := os.ReadFile("/proc/self/io")
	must(err)
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// opened is the time to open a log and to read it, and the peak memory.
type opened struct{ Open, Read, RSS float64 } // ms, ms, MiB

// restarts prints how long each engine takes to open a log and read it.
func restarts() {
	fmt.Printf("| engine | entries | open ms | read all ms | RSS MiB |\n|---|---|---|---|---|\n")
	for _, n := range []int{10_000, 100_000} {
		for _, name := range chosen(false) {
			dir := tempDir()
			var none struct{}
			must(child(&none, "child-fill", name, dir, strconv.Itoa(n), "4096"))
			var all []opened
			for range *runsFlag {
				var o opened
				must(child(&o, "child-open", name, dir))
				all = append(all, o)
			}
			os.RemoveAll(dir)
			fmt.Printf("| %s | %d of 4 KiB | %.0f | %.0f | %.0f |\n", name, n, median(all, func(o opened) float64 { return o.Open }),
				median(all, func(o opened) float64 { return o.Read }), median(all, func(o opened) float64 { return o.RSS }))
		}
	}
}

// childFill writes n entries of up to max bytes, then dies as by kill -9.
func childFill() {
	name, dir := flag.Arg(1), flag.Arg(2)
	n, _ := strconv.Atoi(flag.Arg(3))
	size, _ := strconv.Atoi(flag.Arg(4))
	e, err := openNamed(name, dir)
	must(err)
	batch := 100
	if size < 0 { // entries of random size, one by one: the log for fault tests
		batch = 1
	}
	for i := 1; i <= n; i += batch {
		var entries [][]byte
		for j := i; j < i+batch && j <= n; j++ {
			entries = append(entries, faultEntry(uint64(j), size))
		}
		must(e.Append(uint64(i), entries))
	}
	fmt.Println("{}")
	os.Stdout.Sync()
	os.Exit(0) // no Close: what is on disk now is all there is
}

// faultEntry returns entry i: of size bytes, or of a size drawn up to -size.
func faultEntry(i uint64, size int) []byte {
	if size < 0 {
		size = 50 + rand.New(rand.NewPCG(i, 2)).IntN(-size)
	}
	return content(i, size)
}

// childOpen opens a log, reads all of it, and answers with the times and the
// peak memory.
func childOpen() {
	start := time.Now()
	e, err := openNamed(flag.Arg(1), flag.Arg(2))
	must(err)
	open := time.Since(start)
	first, last, err := e.Bounds()
	must(err)
	start = time.Now()
	for i := first; i <= last; i++ {
		_, err := e.Get(i)
		must(err)
	}
	read := time.Since(start)
	must(e.Close())
	runtime.GC()
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	answer(opened{float64(open) / 1e6, float64(read) / 1e6, float64(ru.Maxrss) / 1024})
}

// space is what a log takes on disk when full, cut, and filled and cut again.
type space struct{ Full, Cut, Refilled float64 } // MiB

// spaces prints the disk space that each engine takes before and after its log
// is cut.
func spaces() {
	fmt.Printf("| engine | 256 MiB of log | cut to its last 16 MiB | and 240 MiB more, cut again |\n|---|---|---|---|\n")
	for _, name := range chosen(false) {
		dir := tempDir()
		var s space
		must(child(&s, "child-space", name, dir))
		os.RemoveAll(dir)
		fmt.Printf("| %s | %.0f | %.0f | %.0f |\n", name, s.Full, s.Cut, s.Refilled)
	}
}

// childSpace fills a log, cuts it, fills and cuts it again, and answers with
// the MiB on disk after each.
func childSpace() {
	name, dir := flag.Arg(1), flag.Arg(2)
	e, err := openNamed(name, dir)
	must(err)
	const size = 16 << 10
	next := uint64(1)
	fill := func(mb int) {
		for range mb << 20 / size {
			must(e.Append(next, [][]byte{content(next, size)}))
			next++
		}
	}
	settle := func() float64 {
		// Engines that clean up in the background get a moment, and the small
		// appends that a live server makes anyway.
		for range 20 {
			must(e.Append(next, [][]byte{content(next, 100)}))
			next++
			time.Sleep(50 * time.Millisecond)
		}
		return float64(sizeOn(dir)) / (1 << 20)
	}
	var s space
	fill(256)
	s.Full = settle()
	must(e.DeletePrefix(next - 1 - 16<<20/size))
	s.Cut = settle()
	fill(240)
	must(e.DeletePrefix(next - 1 - 16<<20/size))
	s.Refilled = settle()
	must(e.Close())
	answer(s)
}
