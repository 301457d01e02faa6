package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// boltEngine keeps the log in one bucket of bbolt.
type boltEngine struct{ db *bbolt.DB }

var bucket = []byte("log")

// openBolt leaves the freelist out of the file, which is the faster way to
// run bbolt: an append writes fewer pages, an open scans for the free ones.
func openBolt(dir string) (engine, error) {
	db, err := bbolt.Open(filepath.Join(dir, "log.db"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	return &boltEngine{db}, err
}

// Append implements engine.
func (e *boltEngine) Append(first uint64, entries [][]byte) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		b.FillPercent = 1 // keys only grow, so full pages never split
		for i, v := range entries {
			if err := b.Put(key(first+uint64(i)), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get implements engine.
func (e *boltEngine) Get(i uint64) (v []byte, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		v = bytes.Clone(tx.Bucket(bucket).Get(key(i)))
		if v == nil {
			return errors.New("not found")
		}
		return nil
	})
	return v, err
}

// Bounds implements engine.
func (e *boltEngine) Bounds() (first, last uint64, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		if k, _ := c.First(); k != nil {
			first = binary.BigEndian.Uint64(k[1:])
		}
		if k, _ := c.Last(); k != nil {
			last = binary.BigEndian.Uint64(k[1:])
		}
		return nil
	})
	return first, last, err
}

// DeletePrefix implements engine.
func (e *boltEngine) DeletePrefix(to uint64) error { return e.delete(0, to) }

// DeleteSuffix implements engine.
func (e *boltEngine) DeleteSuffix(from uint64) error { return e.delete(from, 1<<62) }

// delete deletes the entries from and to and those between. It seeks again each
// time, because deleting moves the cursor.
func (e *boltEngine) delete(from, to uint64) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		for k, _ := c.Seek(key(from)); k != nil && binary.BigEndian.Uint64(k[1:]) <= to; k, _ = c.Seek(key(from)) {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close implements engine.
func (e *boltEngine) Close() error { return e.db.Close() }
