package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The log that is harmed: entries of 50 to 3,050 bytes, each appended and
// synced by itself, then the process ended without closing.
const (
	faultEntries = 400
	faultSize    = -3000
)

// outcomes counts what became of harmed logs.
type outcomes struct {
	whole   int // nothing is missing
	last    int // the last append is missing, which a crash may cost
	shorter int // more is missing at the end, and nothing was said
	refused int // an error
	died    int // the process panicked, was killed or hung
	wrong   int // bytes came back that were never written, or there is a gap
	mostCut int // most appends missing at the end
	slowest time.Duration
	example string // of a death
}

// count opens the damaged log in dir in another process, which may die of it,
// and counts what came of it.
func (o *outcomes) count(dir, name string) {
	start := time.Now()
	var c checked
	err := child(&c, "child-check", name, dir)
	o.slowest = max(o.slowest, time.Since(start))
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 3 && !strings.Contains(err.Error(), "hangs for a minute") {
		o.refused++
		return
	}
	switch lost := faultEntries - c.Entries; {
	case err != nil:
		o.died++
		o.example = err.Error()
	case c.Wrong != "":
		o.wrong++
		o.example = c.Wrong
	case lost == 0:
		o.whole++
	case lost == 1:
		o.last++
	default:
		o.shorter++
		o.mostCut = max(o.mostCut, lost)
	}
}

// checked is what a child process found in a damaged log.
type checked struct {
	Entries int
	Wrong   string
}

// endHang ends the process after a minute. A process that takes longer counts
// as hanging.
func endHang() { time.AfterFunc(time.Minute, func() { fatalf("hangs for a minute") }) }

// childCheck opens a harmed log and reads all of it.
func childCheck() {
	endHang()
	e, err := openNamed(flag.Arg(1), flag.Arg(2))
	must(err)
	first, last, err := e.Bounds()
	must(err)
	c := checked{}
	if last > 0 && first != 1 {
		c.Wrong = fmt.Sprintf("begins with entry %d", first)
	}
	for i := first; i <= last && last > 0; i++ {
		b, err := e.Get(i)
		must(err)
		if !bytes.Equal(b, faultEntry(i, faultSize)) {
			c.Wrong = fmt.Sprintf("entry %d is not what was written", i)
			break
		}
		c.Entries++
	}
	answer(c)
	os.Exit(0)
}

// faults prints for each engine what it makes of torn and flipped bytes, then
// of full and failing disks.
func faults() {
	fmt.Println("| engine | harm | n | nothing lost | last append lost | more lost, unsaid (most) | refused | process died | wrong bytes | slowest |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, name := range chosen(false) {
		dir := tempDir()
		var none struct{}
		must(child(&none, "child-fill", name, dir, strconv.Itoa(faultEntries), strconv.Itoa(faultSize)))
		if name != "etcdwal" && name != "sqlite" {
			// A start in between, so that engines with tables have some.
			var o opened
			must(child(&o, "child-open", name, dir))
			os.RemoveAll(dir)
			must(os.MkdirAll(dir, 0o700))
			must(child(&none, "child-fill", name, dir, strconv.Itoa(faultEntries), strconv.Itoa(faultSize)))
		}
		torn(name, dir)
		flipped(name, dir, true)
		flipped(name, dir, false)
		os.RemoveAll(dir)
	}
	fmt.Println()
	fulls()
	fmt.Println()
	fsyncs()
}

// print prints the outcomes of n trials as a row of the table.
func (o *outcomes) print(name, harm string, n int) {
	fmt.Printf("| %s | %s | %d | %d | %d | %d (%d) | %d | %d | %d | %.1f s |\n", name, harm, n, o.whole, o.last, o.shorter, o.mostCut, o.refused, o.died, o.wrong, o.slowest.Seconds())
	if o.example != "" {
		fmt.Fprintf(os.Stderr, "%s, %s: %s\n", name, harm, o.example)
	}
}

// torn cuts the newest file: every byte of its last 4 KiB and every 512 of its
// last 64 KiB, or a sample.
func torn(name, dir string) {
	file, err := newest(dir, name)
	must(err)
	b, err := os.ReadFile(file)
	must(err)
	end := len(bytes.TrimRight(b, "\x00"))
	byteStep, blockStep := 127, 4096
	if *longFlag {
		byteStep, blockStep = 1, 512
	}
	var cuts []int
	for d := 0; d <= 4096; d += byteStep {
		cuts = append(cuts, end-d)
	}
	for d := 4608; d <= 64<<10; d += blockStep {
		cuts = append(cuts, end-d)
	}
	var o outcomes
	for _, cut := range cuts {
		harmed(dir, func(to string) {
			rel, _ := filepath.Rel(dir, file)
			must(os.Truncate(filepath.Join(to, rel), int64(max(cut, 0))))
			o.count(to, name)
		})
	}
	o.print(name, "newest file cut", len(cuts))
}

// flipped flips single bits: in the newest file, or in all the others.
func flipped(name, dir string, inNewest bool) {
	newestFile, err := newest(dir, name)
	must(err)
	var files []string
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (p == newestFile) == inNewest && size(p) > 0 {
			files = append(files, p)
		}
		return err
	})
	if len(files) == 0 {
		return
	}
	n := 100
	if *longFlag {
		n = 2000
	}
	r := rand.New(rand.NewPCG(3, 4))
	var o outcomes
	for range n {
		file := files[r.IntN(len(files))]
		harmed(dir, func(to string) {
			rel, _ := filepath.Rel(dir, file)
			path := filepath.Join(to, rel)
			b, err := os.ReadFile(path)
			must(err)
			used := len(bytes.TrimRight(b, "\x00"))
			if used > 0 {
				b[r.IntN(used)] ^= 1 << r.IntN(8)
			}
			must(os.WriteFile(path, b, 0o600))
			o.count(to, name)
		})
	}
	where := "bit flipped in the newest file"
	if !inNewest {
		where = "bit flipped in another file"
	}
	o.print(name, where, n)
}

// size returns the length of a file, 0 if it does not exist.
func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// harmed copies the log for one harm.
func harmed(dir string, do func(to string)) {
	to := filepath.Join(tempDir(), "log")
	defer os.RemoveAll(filepath.Dir(to))
	must(os.CopyFS(to, os.DirFS(dir)))
	do(to)
}

// fulls fills a small disk with each engine's log.
func fulls() {
	fmt.Println("| engine | when the disk is full | entries acknowledged | after room is made |")
	fmt.Println("|---|---|---|---|")
	for _, name := range chosen(false) {
		disk := tempDir()
		must(syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256m"))
		ballast := filepath.Join(disk, "ballast")
		must(os.WriteFile(ballast, make([]byte, 128<<20), 0o600))
		dir := filepath.Join(disk, "log")
		must(os.Mkdir(dir, 0o700))
		said := filepath.Join(disk, "..", filepath.Base(disk)+".said")
		var f full
		err := child(&f, "child-full", name, dir, said)
		b, _ := os.ReadFile(said)
		acknowledged, _ := strconv.Atoi(string(b))
		what := "returns: " + f.Error
		if err != nil {
			what = "the process dies: " + err.Error()
		}
		must(os.Remove(ballast))
		var c full
		after := "all there"
		if err := child(&c, "child-full", name, dir, said, "check"); err != nil {
			after = "does not open: " + err.Error()
		} else if c.Last < acknowledged {
			after = fmt.Sprintf("LOST %d", acknowledged-c.Last)
		}
		fmt.Printf("| %s | %.160s | %d | %.160s |\n", name, what, acknowledged, after)
		os.Remove(said)
		must(syscall.Unmount(disk, 0))
		os.Remove(disk)
	}
}

// full is how a child process fared on a full disk.
type full struct {
	Error string
	Last  int
}

// childFull appends until an error, and notes what was acknowledged.
func childFull() {
	endHang()
	e, err := openNamed(flag.Arg(1), flag.Arg(2))
	must(err)
	_, last, err := e.Bounds()
	must(err)
	if flag.Arg(4) == "check" {
		for i := uint64(1); i <= last; i++ {
			b, err := e.Get(i)
			must(err)
			if !bytes.Equal(b, faultEntry(i, faultSize)) {
				fatalf("entry %d is wrong", i)
			}
		}
		must(e.Append(last+1, [][]byte{faultEntry(last+1, faultSize)}))
		answer(full{Last: int(last)})
		return
	}
	for i := uint64(1); ; i++ {
		if err := e.Append(i, [][]byte{faultEntry(i, faultSize)}); err != nil {
			answer(full{Error: err.Error()})
			return
		}
		must(os.WriteFile(flag.Arg(3), []byte(strconv.FormatUint(i, 10)), 0o600))
	}
}

// fsyncs makes one sync of the log fail with EIO, which strace can inject.
func fsyncs() {
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Println("no strace here, so no failing sync")
		return
	}
	fmt.Println("| engine | one sync fails with EIO | appends acknowledged | appends tried afterwards |")
	fmt.Println("|---|---|---|---|")
	for _, name := range chosen(false) {
		dir := filepath.Join(tempDir(), "log")
		must(os.Mkdir(dir, 0o700))
		exe, err := os.Executable()
		must(err)
		cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,sync_file_range",
			"-e", "inject=fsync,fdatasync:error=EIO:when=120", exe, "child-eio", name, dir)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		what := strings.TrimSpace(string(out))
		if err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
			what += " | the process dies: " + line + " | none"
		}
		fmt.Printf("| %s | %.300s |\n", name, what)
		os.RemoveAll(filepath.Dir(dir))
	}
}

// childEIO appends 400 entries, and tries five more after a failure.
func childEIO() {
	endHang()
	e, err := openNamed(flag.Arg(1), flag.Arg(2))
	must(err)
	for i := uint64(1); i <= 400; i++ {
		err := e.Append(i, [][]byte{faultEntry(i, faultSize)})
		if err == nil {
			continue
		}
		again := 0
		for j := range uint64(5) {
			if e.Append(i+j, [][]byte{faultEntry(i+j, faultSize)}) == nil {
				again++
			}
		}
		fmt.Printf("returns: %v | %d | %d of 5 succeed", err, i-1, again)
		os.Exit(0)
	}
	fmt.Print("nothing returned | 400 | ")
	os.Exit(0)
}
