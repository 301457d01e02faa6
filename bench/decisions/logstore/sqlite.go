package main

import (
	"database/sql"
	"path/filepath"

	_ "modernc.org/sqlite"
)

// sqliteEngine is SQLite, translated to Go, with its write-ahead log synced at
// each commit.
type sqliteEngine struct{ db *sql.DB }

// openSQLite opens or creates a log that syncs each transaction. One connection
// avoids lock conflicts.
func openSQLite(dir string) (engine, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "log.sqlite")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS log (i INTEGER PRIMARY KEY, v BLOB NOT NULL)`)
	return &sqliteEngine{db}, err
}

// Append implements engine.
func (e *sqliteEngine) Append(first uint64, entries [][]byte) error {
	tx, err := e.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for i, v := range entries {
		if _, err := tx.Exec(`INSERT INTO log VALUES (?, ?)`, int64(first)+int64(i), v); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// Get implements engine.
func (e *sqliteEngine) Get(i uint64) (v []byte, err error) {
	err = e.db.QueryRow(`SELECT v FROM log WHERE i = ?`, int64(i)).Scan(&v)
	return v, err
}

// Bounds implements engine.
func (e *sqliteEngine) Bounds() (first, last uint64, err error) {
	err = e.db.QueryRow(`SELECT coalesce(min(i), 0), coalesce(max(i), 0) FROM log`).Scan(&first, &last)
	return first, last, err
}

// DeletePrefix implements engine.
func (e *sqliteEngine) DeletePrefix(to uint64) error {
	_, err := e.db.Exec(`DELETE FROM log WHERE i <= ?`, int64(to))
	return err
}

// DeleteSuffix implements engine.
func (e *sqliteEngine) DeleteSuffix(from uint64) error {
	_, err := e.db.Exec(`DELETE FROM log WHERE i >= ?`, int64(from))
	return err
}

// Close implements engine.
func (e *sqliteEngine) Close() error { return e.db.Close() }
