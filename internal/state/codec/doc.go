// Package codec is how the state is written down: the fields of log entries and
// snapshot records, the frames around them with their checksums, and the table
// of log versions. It knows bytes, rows and their formats; it does not know
// tables, commands or what they do.
//
// What there is much of is written field by field, in as few bytes as it takes.
// Everything else is msgpack: maps by field name without the fields that are
// zero, which can gain fields without a new format.
//
// Bytes that no server wrote are an error, never a panic, and cost no more
// memory than they take themselves. Equal values give equal bytes. The formats
// are kept for ever: a newer build reads what any older one wrote.
package codec
