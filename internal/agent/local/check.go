package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
)

// bbolt trusts its file: a damaged one makes it panic, fault or follow pages in
// a circle until memory is used up. So the file is walked first, with every
// number checked before it is used. The format is stable (version 2): pages of
// equal size; each begins with its number, its kind, a count of elements and
// how many pages it runs over; elements say where after themselves key and
// value are; two meta pages with checksums name the root.
const (
	pageHead    = 16
	elementSize = 16
	bucketHead  = 16

	kindBranch = 0x01
	kindLeaf   = 0x02
	kindMeta   = 0x04

	flagBucket = 0x01

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64

	noFreelist = 1<<64 - 1

	maxFile = 1 << 30
)

var order = binary.NativeEndian // as bbolt writes it

type meta struct {
	pageSize       uint64
	root           uint64
	pages          uint64 // numbers in use are below
	txid, freelist uint64
}

// checkFile returns a fileError if bbolt must not be let at the file, and all
// records with intact checksums that were found until then. That there is no
// file is fine.
func checkFile(path string) (map[string][]byte, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, &fileError{fmt.Errorf("%v of %d bytes", st.Mode(), st.Size())}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, nil // bbolt was stopped right after it made it
	}
	return checkData(data)
}

func checkData(data []byte) (map[string][]byte, error) {
	m, err := newestMeta(data)
	if err != nil {
		return nil, &fileError{err}
	}
	w := walker{data: data, meta: m, seen: map[uint64]bool{}, found: map[string][]byte{}}
	w.bucketPage(m.root, "")
	if len(w.problems) > 0 {
		return w.found, &fileError{errors.Join(w.problems...)}
	}
	return w.found, nil
}

// newestMeta returns the meta page that bbolt would go by.
func newestMeta(data []byte) (best meta, err error) {
	ok := false
	try := func(at uint64) {
		m, good := readMeta(data, at)
		if good && (!ok || m.txid > best.txid) {
			best, ok = m, true
		}
	}
	try(0)
	if ok {
		try(best.pageSize)
	} else {
		for size := uint64(1 << 10); size <= 1<<16; size <<= 1 {
			try(size)
		}
	}
	if !ok {
		return meta{}, errors.New("neither meta page is intact")
	}
	// bbolt maps the file in pages of this machine's size unless told; the
	// size it was made with must divide what there is.
	if best.freelist != noFreelist {
		return meta{}, errors.New("it has a list of free pages, which ours have not")
	}
	if best.pages < 2 || best.pages > uint64(len(data))/best.pageSize {
		return meta{}, fmt.Errorf("the file has %d bytes, but should have %d pages of %d", len(data), best.pages, best.pageSize)
	}
	return best, nil
}

func readMeta(data []byte, at uint64) (m meta, ok bool) {
	if at+pageHead+metaSize > uint64(len(data)) {
		return m, false
	}
	page, b := data[at:], data[at+pageHead:at+pageHead+metaSize]
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	if order.Uint32(b) != metaMagic || order.Uint32(b[4:]) != metaVersion || order.Uint64(b[56:]) != h.Sum64() ||
		order.Uint16(page[8:]) != kindMeta {
		return m, false
	}
	m = meta{
		pageSize: uint64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		pages: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
	if m.pageSize < 1<<10 || m.pageSize > 1<<16 || m.pageSize&(m.pageSize-1) != 0 || at != 0 && at != m.pageSize {
		return m, false
	}
	return m, true
}

type walker struct {
	data     []byte
	meta     meta
	seen     map[uint64]bool
	found    map[string][]byte
	problems []error
}

const maxProblems = 10

func (w *walker) fail(format string, args ...any) {
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, fmt.Errorf(format, args...))
	}
}

// bucketPage walks the pages of the bucket with that name, "" for the root.
func (w *walker) bucketPage(root uint64, name string) {
	var last []byte
	w.page(root, name, nil, nil, &last)
}

// page walks a page and those below. Its first key must be low, as the page
// above says, and all below high (nil: not said), and above last, the last key
// before them in the bucket.
func (w *walker) page(id uint64, bucket string, low, high []byte, last *[]byte) {
	if id < 2 || id >= w.meta.pages {
		w.fail("page %d is not one of %d", id, w.meta.pages)
		return
	}
	if w.seen[id] {
		w.fail("page %d is used twice", id)
		return
	}
	w.seen[id] = true
	size := w.meta.pageSize
	b := w.data[id*size:]
	over := uint64(order.Uint32(b[12:]))
	if over >= w.meta.pages-id {
		w.fail("page %d runs over %d pages, past the end", id, over)
		return
	}
	for i := id + 1; i <= id+over; i++ {
		if w.seen[i] {
			w.fail("page %d is used twice", i)
			return
		}
		w.seen[i] = true
	}
	if got := order.Uint64(b); got != id {
		w.fail("page %d says that it is %d", id, got)
		return
	}
	w.elements(b[:size*(over+1)], fmt.Sprint("page ", id), bucket, low, high, last)
}

// elements walks the elements of a page or of a bucket inlined in one.
func (w *walker) elements(b []byte, at, bucket string, low, high []byte, last *[]byte) {
	kind, n := order.Uint16(b[8:]), int(order.Uint16(b[10:]))
	if kind != kindBranch && kind != kindLeaf || n == 0 && (kind == kindBranch || low != nil) {
		w.fail("%s is of kind %#x with %d elements", at, kind, n)
		return
	}
	if pageHead+n*elementSize > len(b) {
		w.fail("%s has room for fewer than %d elements", at, n)
		return
	}
	var keys [][]byte
	for i := range n {
		start := uint64(pageHead + i*elementSize)
		e := b[start : start+elementSize]
		pos, ksize, vsize := uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), uint64(0)
		if kind == kindLeaf {
			pos, ksize, vsize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
		}
		from := start + pos
		if pos < elementSize || from+ksize+vsize > uint64(len(b)) || ksize == 0 && bucket != "" {
			w.fail("%s: element %d lies outside", at, i)
			return
		}
		key := b[from : from+ksize]
		if i > 0 && bytes.Compare(keys[i-1], key) >= 0 {
			w.fail("%s: the keys are not in order at element %d", at, i)
			return
		}
		if i == 0 && low != nil && !bytes.Equal(key, low) {
			w.fail("%s begins with %q, not with %q", at, key, low)
			return
		}
		keys = append(keys, key)
		if kind == kindBranch {
			continue
		}
		if high != nil && bytes.Compare(key, high) >= 0 || *last != nil && bytes.Compare(*last, key) >= 0 {
			w.fail("%s: key %q does not belong here", at, key)
			return
		}
		*last = key
		w.leaf(order.Uint32(e), key, b[from+ksize:from+ksize+vsize], at, bucket)
	}
	if kind != kindBranch {
		return
	}
	for i, key := range keys {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1]
		}
		w.page(order.Uint64(b[pageHead+i*elementSize+8:]), bucket, key, next, last)
	}
}

// leaf looks at one key and its value.
func (w *walker) leaf(flags uint32, key, value []byte, at, bucket string) {
	if bucket != "" { // ours have one level
		if flags != 0 {
			w.fail("%s: %q has flags %#x", at, key, flags)
			return
		}
		if _, err := unseal(key, value); err == nil && bucket == string(bucketRecords) {
			w.found[string(key)] = bytes.Clone(value)
		}
		return
	}
	known := bytes.Equal(key, bucketRecords) || bytes.Equal(key, bucketDamaged)
	if flags != flagBucket || !known || len(value) < bucketHead {
		w.fail("%s: %q is no bucket of ours", at, key)
		return
	}
	if root := order.Uint64(value); root != 0 {
		w.bucketPage(root, string(key))
		return
	}
	inline := value[bucketHead:]
	if len(inline) < pageHead || order.Uint16(inline[8:]) != kindLeaf || order.Uint32(inline[12:]) != 0 {
		w.fail("%s: the bucket %q inlined is damaged", at, key)
		return
	}
	var last []byte
	w.elements(inline, fmt.Sprintf("bucket %q", key), string(key), nil, nil, &last)
}
