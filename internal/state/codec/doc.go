// Package codec encodes the state: the fields of log entries and snapshot
// records, the frames around them with their checksums, and the table of log
// versions. It knows bytes, rows and their formats; it does not know tables, or
// what commands do.
//
// Frequent values are written field by field, in as few bytes as possible.
// Everything else is msgpack: maps by field name without zero fields, which can
// gain fields without a new format.
//
// Invalid bytes are an error, never a panic, and cost no more memory than their
// own length. Equal values give equal bytes. The formats are kept for ever: a
// newer build reads what any older one wrote.
package codec
