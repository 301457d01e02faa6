package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// tellEnv names an address at which the process of a test tells what it has used.
const tellEnv = "BERTH_TEST_TELL"

// tell writes what the kernel says of this process to the address, if there is one.
func tell() {
	to := os.Getenv(tellEnv)
	if to == "" {
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if c, derr := net.Dial("tcp", to); derr == nil {
		fmt.Fprintf(c, "%s%v", status, err)
		_ = c.Close()
	}
}

// peak finds the most memory that a process has had, in KiB.
var peak = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// zeros are n bytes.
func zeros(n int) []byte { return make([]byte, n) }

// packed is what a writer of a format makes of a text.
func packed(t *testing.T, text []byte, to func(io.Writer) (io.WriteCloser, error)) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := to(&b)
	if err != nil {
		t.Fatal(err)
	}
	_, werr := w.Write(text)
	if err := errors.Join(werr, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tarred is a tar of one file.
func tarred(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: "file", Size: int64(len(text)), Mode: 0o644})
	_, werr := w.Write(text)
	if err := errors.Join(err, werr, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// headed is a tar of n global headers of almost 1 MiB and no file.
func headed(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for range n {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": strings.Repeat("x", 1<<20-1024)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zipped is a zip of one file.
func zipped(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	_, werr := f.Write(text)
	if err := errors.Join(werr, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// listed is a zip that is nothing but a list of n entries.
func listed(n int) []byte {
	var e [47]byte
	copy(e[:], "PK\x01\x02")
	binary.LittleEndian.PutUint16(e[28:], 1) // bytes of the name
	e[46] = 'x'
	b := bytes.Repeat(e[:], n)
	var end [22]byte
	copy(end[:], "PK\x05\x06")
	binary.LittleEndian.PutUint16(end[8:], uint16(n)) // what is more than fits is left out
	binary.LittleEndian.PutUint16(end[10:], uint16(n))
	binary.LittleEndian.PutUint32(end[12:], uint32(len(b)))
	return append(b, end[:]...)
}

// stored is an xz file of n zero bytes that are not compressed. It wants a dictionary
// of a size: 30 is 64 MiB, 40 is 4 GiB less a byte.
func stored(dictionary byte, n int) []byte {
	var b bytes.Buffer
	sum := func(text []byte) { _ = binary.Write(&b, binary.LittleEndian, crc32.ChecksumIEEE(text)) }
	b.WriteString("\xfd7zXZ\x00")
	flags := []byte{0, 0} // no checksum of the content
	b.Write(flags)
	sum(flags)
	header := []byte{2, 0, 0x21, 1, dictionary, 0, 0, 0}
	b.Write(header)
	sum(header)
	begin := b.Len()
	for first := byte(1); n > 0; first = 2 { // the first one resets the dictionary
		part := min(n, 1<<16)
		b.Write([]byte{first, byte((part - 1) >> 8), byte(part - 1)})
		b.Write(zeros(part))
		n -= part
	}
	b.WriteByte(0)
	length := b.Len() - begin + len(header) + 4
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
	return append(b.Bytes(), xzEnd(length, flags, b.Bytes()[begin:])...)
}

// xzEnd is the index and the end of an xz file of one block.
func xzEnd(length int, flags, chunks []byte) []byte {
	size := 0
	for i := 0; i < len(chunks) && chunks[i] != 0; {
		part := int(chunks[i+1])<<8 + int(chunks[i+2]) + 1
		size += part
		i += 3 + part
	}
	index := binary.AppendUvarint(binary.AppendUvarint([]byte{0, 1}, uint64(length)), uint64(size))
	for len(index)%4 != 0 {
		index = append(index, 0)
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.ChecksumIEEE(index))
	back := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	end := binary.LittleEndian.AppendUint32(index, crc32.ChecksumIEEE(back))
	return append(append(end, back...), "YZ"...)
}

// raw is a zstd file of n zero bytes that are not compressed. Its window has 1 KiB
// times two to the power.
func raw(power, n int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(power << 3)}
	for n > 0 {
		part := min(n, 1<<17)
		n -= part
		head := uint32(part) << 3
		if n == 0 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16))
		b = append(b, zeros(part)...)
	}
	return b
}

// bzipped are 8 MiB of zero bytes.
const bzipped = "QlpoOTFBWSZTWaI9S1gAQEBAgMAAAAQACCAAMMwFKaYBANiAgHi7kinChIUR6lrA"

// The process that fetches keeps within a bound of memory that each kind of archive
// has, whatever is in it: contents that are far larger than it, lists and headers
// without end, and dictionaries that it asks for. Whatever asks for more is refused for
// what it is, is not tried again, and nothing of it is placed.
//
//	go test -count=1 -v -run TestMemoryOfTheFetcher ./internal/agent/fetch
func TestMemoryOfTheFetcher(t *testing.T) {
	if underRace {
		t.Skip("the race detector has memory of its own; make processes runs this without it")
	}
	const mib = 1 << 20
	gz := func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }
	xzw := func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }
	zst := func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }
	bz, err := base64.StdEncoding.DecodeString(bzipped)
	if err != nil {
		t.Fatal(err)
	}
	const ratio = "more than 100 times its size"
	for _, c := range []struct {
		file string
		data []byte
		want string // is in the error; "" if it is fetched
		most int    // MiB; 0 if the kernel ends the process
	}{
		{"plain", []byte("x"), "", 32},
		{"large", zeros(64 * mib), "", 32},
		{"zeros.gz", packed(t, zeros(8*mib), gz), ratio, 32},
		{"zeros.tar.gz", packed(t, tarred(t, zeros(8*mib)), gz), ratio, 32},
		{"headers.tar.gz", packed(t, headed(t, 100), gz), ratio, 64},
		{"zeros.bz2", bz, ratio, 32},
		{"zeros.tar", tarred(t, zeros(64*mib)), "", 32},
		{"zeros.zip", zipped(t, zeros(8*mib)), ratio, 32},
		{"listed.zip", listed(1_000_000), "entries", 128},
		{"zeros.xz", packed(t, zeros(8*mib), xzw), ratio, 128},
		{"dictionary-64m.xz", stored(30, 80*mib), "", 256},
		{"dictionary-4g.xz", stored(40, mib), "at most 1024 MiB of memory", 0},
		{"zeros.zst", packed(t, zeros(8*mib), zst), ratio, 64},
		{"window-64m.zst", raw(16, 80*mib), "", 192},
		{"window-1g.zst", raw(20, mib), "window", 32},
	} {
		t.Run(c.file, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			t.Setenv(tellEnv, l.Addr().String())
			r := newRig(t, Config{Env: []string{tellEnv}, Paths: []string{"/proc"}})
			r.files["/"+c.file] = c.data
			told := make(chan []byte, 1)
			go func() {
				conn, err := l.Accept()
				if err != nil {
					close(told)
					return
				}
				defer conn.Close()
				b, _ := io.ReadAll(conn)
				told <- b
			}()
			err = r.get(t, Artifact{Source: "URL/" + c.file}, "task/local")
			_ = l.Close()
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrBad) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if got := r.tree(t); c.want != "" && got != "" {
				t.Errorf("placed: %.300s", got)
			}
			m := peak.FindSubmatch(<-told)
			if m == nil {
				if c.most > 0 {
					t.Errorf("it was ended by the kernel: %v", err)
				}
				t.Logf("%-20s archive %7.1f MiB, ended by the kernel: %v", c.file, float64(len(c.data))/mib, err)
				return
			}
			kib, _ := strconv.Atoi(string(m[1]))
			t.Logf("%-20s archive %7.1f MiB, process %4d MiB: %v", c.file, float64(len(c.data))/mib, kib>>10, err)
			if kib>>10 > c.most {
				t.Errorf("it had %d MiB, at most %d are allowed", kib>>10, c.most)
			}
		})
	}
}
