package api

import (
	"bytes"
	"encoding/json"
)

// source is what the encoding of a row is made of: pointers to stored values, which
// never change. Rows with equal sources are encoded alike. The zero source is
// equal to none.
type source struct {
	a, b, c any
	n       int64
}

// encodedRow is a row in the encoding of a list.
type encodedRow struct {
	of         source
	start, end int
}

// rowEncoder encodes the rows of a list as JSON. It takes over from an earlier
// encoding of the same list the rows that are as they were.
type rowEncoder struct {
	buf    bytes.Buffer
	json   *json.Encoder // into buf
	rows   []encodedRow
	old    *listAnswer // may be nil
	at     int         // the rows of old before this one are behind
	missed int         // rows since the last that was found in old
	kept   int         // rows taken over
}

// lookahead is how many rows of the old encoding are compared with a row. Each
// row that is not found widens it, so that any number of changed rows is passed.
const lookahead = 64

// newRowEncoder returns an encoder that takes over rows from old, which may be
// nil.
func newRowEncoder(old *listAnswer) *rowEncoder {
	e := &rowEncoder{old: old}
	if old != nil {
		e.buf.Grow(len(old.body) + len(old.body)/16)
		e.rows = make([]encodedRow, 0, len(old.rows)+len(old.rows)/16)
	}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

// add adds a row. Lists keep their order, so the old encoding of a row is a
// little after that of the row before.
func (e *rowEncoder) add(of source, view func() any) error {
	if len(e.rows) == 0 {
		e.buf.WriteByte('[')
	} else {
		e.buf.WriteByte(',')
	}
	start := e.buf.Len()
	if old := e.find(of); old != nil {
		e.buf.Write(e.old.body[old.start:old.end])
		e.kept++
	} else {
		if err := e.json.Encode(view()); err != nil {
			return err
		}
		e.buf.Truncate(e.buf.Len() - 1) // the line break
	}
	e.rows = append(e.rows, encodedRow{of, start, e.buf.Len()})
	return nil
}

// find returns the row of the old encoding that is made of the same, or nil.
func (e *rowEncoder) find(of source) *encodedRow {
	if e.old == nil || of == (source{}) {
		return nil
	}
	for i := e.at; i < min(len(e.old.rows), e.at+lookahead+e.missed); i++ {
		if e.old.rows[i].of == of {
			e.at, e.missed = i+1, 0
			return &e.old.rows[i]
		}
	}
	e.missed++
	return nil
}

// body returns the encoding of the list. v is what the handler returned: the list
// itself if no row was added.
func (e *rowEncoder) body(v any) ([]byte, error) {
	if len(e.rows) == 0 {
		return encodeJSON(v)
	}
	e.buf.WriteString("]\n")
	return e.buf.Bytes(), nil
}
