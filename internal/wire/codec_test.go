package wire

import (
	"bytes"
	"encoding"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"pgregory.net/rapid"

	"berth"
	"berth/internal/msgpack"
	"berth/op"
)

// messages are empty inputs and answers of what travels, by RPC name.
var messages = func() map[string][2]any {
	all := map[string][2]any{}
	for _, o := range op.All() {
		if o.RPC != "" {
			all[o.RPC] = [2]any{reflect.Zero(o.In).Interface(), reflect.Zero(o.Out).Interface()}
		}
	}
	return all
}()

// fill sets v to something that a correct codec gives back as it was: no empty
// lists or maps beside nil ones, times in UTC.
func fill(v reflect.Value, r *rand.Rand, depth int) {
	if _, ok := v.Addr().Interface().(*time.Time); ok {
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC()))
		return
	}
	if _, ok := v.Addr().Interface().(encoding.BinaryUnmarshaler); ok && v.Kind() == reflect.Uint8 {
		v.SetUint(r.Uint64N(3)) // a status; each has three at least
		return
	}
	absent := depth > 12 || r.IntN(4+depth) > 4 || r.IntN(4) == 0
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.Uint64()) >> r.IntN(64) >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		// go-msgpack, when it reads without types, has no larger numbers.
		v.SetUint(r.Uint64() >> 1 >> r.IntN(64) >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(r.NormFloat64())))
	case reflect.String:
		v.SetString(string(junk(r)))
	case reflect.Interface:
		if !absent {
			v.Set(reflect.ValueOf(anything(r, depth+1)))
		}
	case reflect.Pointer:
		if !absent {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), r, depth+1)
		}
	case reflect.Slice:
		if !absent {
			v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 4))
			for i := range v.Len() {
				fill(v.Index(i), r, depth+1)
			}
		}
	case reflect.Array: // an ID, not zero
		for i := range v.Len() {
			v.Index(i).SetUint(1 + r.Uint64N(255))
		}
	case reflect.Map:
		if !absent {
			v.Set(reflect.MakeMap(v.Type()))
			for range 1 + r.IntN(3) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(key, r, depth+1)
				fill(value, r, depth+1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), r, depth+1)
		}
	default:
		panic(fmt.Sprintf("a message holds a %v", v.Type()))
	}
}

func junk(r *rand.Rand) []byte {
	lengths := []int{0, 1, 5, 31, 32, 33, 255, 256}
	if r.IntN(2000) == 0 {
		lengths = []int{65535, 65536}
	}
	b := make([]byte, lengths[r.IntN(len(lengths))])
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return b
}

// anything is what a driver's config may hold.
func anything(r *rand.Rand, depth int) any {
	n := 6
	if depth > 8 {
		n = 4
	}
	switch r.IntN(n) {
	case 0:
		return string(junk(r))
	case 1:
		return int64(r.Uint64()) >> r.IntN(64)
	case 2:
		return r.IntN(2) == 0
	case 3:
		return r.NormFloat64()
	case 4:
		return []any{anything(r, depth+1), nil}
	}
	return map[string]any{"a": anything(r, depth+1), "b": nil}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	for name, m := range messages {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				for _, kind := range slices.Repeat(m[:], 4) {
					in := reflect.New(reflect.TypeOf(kind))
					fill(in.Elem(), r, 0)
					ours, err := msgpack.Append(nil, in.Interface())
					if err != nil {
						t.Fatal(err)
					}
					checkTokens(t, ours)
					roundTrip(t, "our encoding", ours, in)
					for _, write := range []bool{false, true} { // the old form and the new
						var b []byte
						codec.NewEncoderBytes(&b, theirs(write)).MustEncode(in.Interface())
						roundTrip(t, "go-msgpack's encoding", b, in)
					}
					// Without types, what we say and what go-msgpack says is the
					// same, and so is what we read of it.
					var b []byte
					codec.NewEncoderBytes(&b, theirs(false)).MustEncode(in.Interface())
					var y any
					codec.NewDecoderBytes(b, theirs(false)).MustDecode(&y)
					if x := tree(t, ours); !reflect.DeepEqual(x, y) {
						t.Fatalf("go-msgpack encodes it otherwise: %s", cmp.Diff(x, y))
					}
				}
			})
		})
	}
}

// roundTrip scans and decodes b as it would arrive.
func roundTrip(t *rapid.T, what string, b []byte, in reflect.Value) {
	var s msgpack.Scanner
	if n, err := s.Scan(b, MaxReply); n != len(b) || err != nil {
		t.Fatalf("%s of %d bytes is %d bytes long: %v", what, len(b), n, err)
	}
	out := reflect.New(in.Type().Elem())
	if err := decode(b, out.Interface()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !cmp.Equal(in.Interface(), out.Interface()) {
		t.Fatalf("%s comes back otherwise: %s", what, cmp.Diff(in.Interface(), out.Interface()))
	}
}

// tree decodes b without types.
func tree(t *rapid.T, b []byte) (v any) {
	if err := decode(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// checkTokens holds that only the old form is spoken.
func checkTokens(t *rapid.T, b []byte) {
	for len(b) > 0 {
		head, body, _, kind := token(b)
		if kind == "" {
			t.Fatalf("no value begins with %x", b)
		}
		if c := b[0]; c >= 0xc4 && c <= 0xc9 || c >= 0xd4 && c <= 0xd9 {
			t.Fatalf("the byte 0x%02x is of the new form", c)
		}
		b = b[head+body:]
	}
}

// Values of a type that is encoded once are encoded as others are.
func TestAValueIsEncodedOnce(t *testing.T) {
	c := msgpack.NewProtocol(msgpack.Once[berth.Job]())
	answer := fifty(t)
	for range 2 {
		b, err := c.Append(nil, answer)
		if err != nil {
			t.Fatal(err)
		}
		var got op.GetAllocsAnswer
		if err := decode(b, &got); err != nil || !cmp.Equal(&got, answer) {
			t.Fatalf("it is encoded otherwise: %v", err)
		}
	}
}

// A frame is the same in however many pieces it arrives.
func TestFramesInPieces(t *testing.T) {
	var all []byte
	var want [][]byte
	for _, v := range []any{fifty(t).Allocs[:3], nil, aBeat, "", bytes.Repeat([]byte{1}, 20_000), []int{}, map[string]any{}, 7} {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		want, all = append(want, b), append(all, b...)
	}
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{1, 2, 7, 100, 5000, 1 << 20}).Draw(t, "most")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		fr := &frameReader{conn: &choppy{rest: all, most: most, r: r}, patient: time.Minute}
		for i, w := range want {
			if r.IntN(2) == 0 {
				if err := fr.peek(); err != nil {
					t.Fatal(err)
				}
			}
			got, err := fr.next(MaxFrame, false)
			if err != nil || !bytes.Equal(got, w) {
				t.Fatalf("frame %d: %d bytes, not %d: %v", i, len(got), len(w), err)
			}
			if r.IntN(2) == 0 {
				fr.done()
			}
		}
		if _, err := fr.next(MaxFrame, false); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// choppy is a connection that gives what it has in pieces.
type choppy struct {
	net.Conn
	rest []byte
	most int
	r    *rand.Rand
}

func (c *choppy) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(len(c.rest), 1+c.r.IntN(c.most))])
	c.rest = c.rest[n:]
	return n, nil
}
func (c *choppy) SetReadDeadline(time.Time) error  { return nil }
func (c *choppy) SetWriteDeadline(time.Time) error { return nil }
func (c *choppy) SetDeadline(time.Time) error      { return nil }
func (c *choppy) Write(b []byte) (int, error)      { return len(b), nil }
func (c *choppy) Close() error                     { return nil }
func (c *choppy) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

func TestFramesThatEndTooEarly(t *testing.T) {
	b, err := msgpack.Append(nil, aBeat)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		fr := &frameReader{conn: &choppy{rest: b[:n], most: 1000, r: rand.New(rand.NewPCG(1, 1))}}
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := fr.next(MaxFrame, false); err != want {
			t.Errorf("after %d bytes: %v", n, err)
		}
		if _, err := fr.next(n-1, true); n > 0 && err == io.EOF {
			t.Errorf("after %d bytes, in a request: %v", n, err)
		}
	}
}
