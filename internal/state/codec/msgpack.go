package codec

import (
	"fmt"
	"math"

	"berth"
	"berth/internal/msgpack"
)

// storage is the form of msgpack in logs and snapshots. IDs are their 16 bytes,
// and UIDs two numbers.
var storage = msgpack.NewStorage(
	msgpack.As16[berth.NodeID](), msgpack.As16[berth.EvalID](), msgpack.As16[berth.AllocID](), msgpack.As16[berth.DeploymentID](),
	msgpack.AsPair(
		func(u berth.UID) (index, ordinal uint64) { return u.Index, uint64(u.Ordinal) },
		func(index, ordinal uint64) (berth.UID, error) {
			if ordinal > math.MaxUint32 {
				return berth.UID{}, fmt.Errorf("UID with the ordinal %d", ordinal)
			}
			return berth.UID{Index: index, Ordinal: uint32(ordinal)}, nil
		}),
)

// Value writes v as msgpack.
func (w *Writer) Value(v any) { w.Bytes(Marshal(v)) }

// Marshal returns v as msgpack: maps by field name, without the fields that are
// empty. Equal values give equal bytes. It panics if v has a type that cannot
// be encoded, which no type of the state has.
func Marshal(v any) []byte {
	b, err := storage.Append(nil, v)
	if err != nil {
		panic(fmt.Sprintf("codec: cannot encode a %T: %v", v, err))
	}
	return b
}

// Unmarshal reads what Marshal returned into what dst points to, a zero value.
// Values of type any become int64, float64, string, bool, []any and
// map[string]any.
func Unmarshal(b []byte, dst any) error {
	if err := storage.Decode(b, dst); err != nil {
		return fmt.Errorf("msgpack: %w", err)
	}
	return nil
}

// Value reads msgpack into what dst points to.
func (r *Reader) Value(dst any) {
	b := r.Take(r.Length(1))
	if r.err == nil {
		if err := Unmarshal(b, dst); err != nil {
			r.Damaged(err.Error())
		}
	}
}
