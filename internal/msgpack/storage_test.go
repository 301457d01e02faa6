package msgpack

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type id [16]byte

func (i id) IsZero() bool { return i == id{} }

type pair struct{ A, B uint64 }

type Base struct {
	Term uint64
	Note string
}

type record struct {
	Base
	ID      id
	Parent  *id
	Pair    pair
	Name    string
	Bytes   []byte
	Seed    [4]byte
	List    []int
	Map     map[string][]string
	At      time.Time
	Inner   struct{ X, Y int }
	Any     any
	Score   float64
	Hidden  string `msgpack:"-"`
	private int
}

var kept = NewStorage(As16[id](), AsPair(
	func(p pair) (uint64, uint64) { return p.A, p.B }, func(a, b uint64) (pair, error) { return pair{a, b}, nil }))

// The bytes of storage are for ever. They are those of vmihailenco/msgpack, which
// earlier builds used, without empty fields, with sorted maps and compact
// numbers.
func TestStorageBytes(t *testing.T) {
	full := record{Base: Base{Term: 300}, ID: id{1}, Parent: &id{2}, Pair: pair{7, 1}, Name: strings.Repeat("x", 32), Bytes: []byte{9},
		Seed: [4]byte{1, 2, 3, 4}, List: []int{-1, 200}, Map: map[string][]string{"b": nil, "a": {"c"}}, At: time.Unix(1, 5), Any: map[string]any{"k": int64(200)},
		Score: math.Inf(1), Hidden: "h", private: 1}
	full.Inner.Y = 1
	for _, c := range []struct {
		name string
		in   any
		want string
	}{
		{"nothing", record{}, "\x81\xa4Seed\xc4\x04\x00\x00\x00\x00"},
		{"full", full, "\x8d\xa4Term\xcd\x01\x2c\xa2ID\xc4\x10\x01" + strings.Repeat("\x00", 15) + "\xa6Parent\xc4\x10\x02" + strings.Repeat("\x00", 15) +
			"\xa4Pair\x92\x07\x01\xa4Name\xd9\x20" + strings.Repeat("x", 32) + "\xa5Bytes\xc4\x01\x09\xa4Seed\xc4\x04\x01\x02\x03\x04\xa4List\x92\xff\xcc\xc8" +
			"\xa3Map\x82\xa1a\x91\xa1c\xa1b\xc0\xa2At\xd7\xff\x00\x00\x00\x14\x00\x00\x00\x01\xa5Inner\x81\xa1Y\x01\xa3Any\x81\xa1k\xcc\xc8\xa5Score\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := kept.Append(nil, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if string(b) != c.want {
				t.Errorf("got  %q\nwant %q", b, c.want)
			}
			got := reflect.New(reflect.TypeOf(c.in))
			if err := kept.Decode(b, got.Interface()); err != nil {
				t.Fatal(err)
			}
			again, err := kept.Append(nil, got.Interface())
			if err != nil || !bytes.Equal(again, b) {
				t.Errorf("it comes back as %q, %v", again, err)
			}
		})
	}
}

// Times come back as they were, at both ends of each of their three lengths.
func TestStorageTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(1<<32-1, 0), time.Unix(1<<32, 0), time.Unix(1<<34-1, 999_999_999), time.Unix(1<<34, 1), time.Unix(-1, 7)} {
		b, err := kept.Append(nil, at)
		if err != nil {
			t.Fatal(err)
		}
		var got time.Time
		if err := kept.Decode(b, &got); err != nil || !got.Equal(at) || got.IsZero() != at.IsZero() {
			t.Errorf("%v comes back as %v, %v", at, got, err)
		}
	}
}

// What is not one whole value of the type is an error, and costs little.
func TestStorageRefuses(t *testing.T) {
	deep := func(n int) []byte { return append(bytes.Repeat([]byte{0x91}, n), 0xc0) }
	var anything any
	if err := kept.Decode(deep(maxNesting), &anything); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		b    []byte
		want string
	}{
		{nil, "fewer than the value needs"},
		{[]byte{0x92, 1}, "fewer than the value needs"},
		{[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, "5 bytes are fewer than the value needs"},
		{[]byte{0xc6, 0xff, 0xff, 0xff, 0xff}, "5 bytes are fewer than the value needs"},
		{[]byte{0xc1}, "no value begins"},
		{[]byte{1, 2}, "follow the value"},
		{deep(maxNesting + 1), "nested deeper"},
		{append([]byte("\x81\xa2ID\xc4\x0f"), make([]byte, 15)...), "want an ID of 16 bytes, got 15"},
		{[]byte("\x81\xa4Pair\x93\x01\x02\x03"), "want 2 numbers, got 3"},
		{[]byte("\x81\xa4Pair\x92\x01\xff"), "want a number that is not negative"},
		{[]byte("\x81\xa4Seed\xc4\x05\x01\x02\x03\x04\x05"), "want 4 bytes, got 5"},
		{[]byte("\x81\xa2At\xd4\x01\x00"), "want a time, got extension 1"},
		{[]byte("\x81\xa2At\xd4\xff\x00"), "want a time of 4, 8 or 12 bytes, got 1"},
		{[]byte("\x81\xa2At\x07"), "want a time, got an integer"},
	} {
		err := kept.Decode(c.b, new(record))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.b, err)
		}
	}
	if _, err := kept.Append(nil, map[int]int{1: 2}); err == nil || !strings.Contains(err.Error(), "keys must be strings") {
		t.Error(err)
	}
}

// Lists of small values are as dense as they are: both ends are ours.
func TestStorageMayBeDense(t *testing.T) {
	numbers := make([]uint32, 4*freeElements)
	b, err := kept.Append(nil, numbers)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint32
	if err := kept.Decode(b, &got); err != nil || len(got) != len(numbers) {
		t.Errorf("%d of %d numbers, %v", len(got), len(numbers), err)
	}
	if err := Decode(b, &got); err == nil {
		t.Error("the protocol takes them, too")
	}
}

// FuzzStorage: what is read is written as bytes that read the same.
func FuzzStorage(f *testing.F) {
	f.Add([]byte("\x81\xa4Seed\xc4\x04\x00\x00\x00\x00"))
	f.Add([]byte("\x83\xa2At\xd6\xff\x00\x00\x00\x01\xa3Any\x92\xc0\x81\xa1a\xcb\x00\x00\x00\x00\x00\x00\x00\x01\xa4Pair\x92\x01\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var v, again record
		if kept.Decode(b, &v) != nil {
			return
		}
		once, err := kept.Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Decode(once, &again); err != nil {
			t.Fatal(err)
		}
		if twice, err := kept.Append(nil, &again); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q is written as %q, %v", once, twice, err)
		}
	})
}
